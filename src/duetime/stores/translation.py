"""Translation: what an engine, its driver or the network throws becomes what the contract knows."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TypeAlias

from duetime.errors import StoreUnavailable

Translated: TypeAlias = Callable[..., AbstractContextManager[None]]


def translating(
    engine: str, errors: tuple[type[Exception], ...], meaning: Callable[[Exception], str]
) -> Translated:
    """Make a block that lets none of these errors out; others are bugs, and stay as they are.

    It may be called with another subject than the engine for its sentence.
    """

    @contextmanager
    def translated(subject: str = engine) -> Iterator[None]:
        try:
            yield
        except errors as error:
            raise StoreUnavailable(f"{subject}: {meaning(error)}") from error

    return translated
