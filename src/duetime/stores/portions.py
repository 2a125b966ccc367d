"""Portions: things split by number or by weight, so that what is done at once is never too much."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

_Item = TypeVar("_Item")


def parts(items: Sequence[_Item], longest: int) -> Iterator[Sequence[_Item]]:
    """Split into parts of so many items at most."""
    for start in range(0, len(items), longest):
        yield items[start : start + longest]


def portions(
    items: Iterable[_Item], weigh: Callable[[_Item], int], *, heaviest: int, longest: int
) -> Iterator[list[_Item]]:
    """Split into parts of so much weight and so many items at most; one alone may be heavier."""
    part: list[_Item] = []
    weight = 0
    for item in items:
        more = weigh(item)
        if part and (len(part) == longest or weight + more > heaviest):
            yield part
            part, weight = [], 0
        part.append(item)
        weight += more
    if part:
        yield part
