"""Waiting for what is known in this process; ``eventually`` is for what must be asked for."""

from collections.abc import Callable

from tests.system.service import eventually


async def until(is_so: Callable[[], object], what: str, *, every: float = 0.05) -> None:
    """Look again and again until it is so; give up at a deadline."""

    async def look() -> object:
        return is_so()

    await eventually(look, what, every=every)
