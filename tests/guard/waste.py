"""Waste: work for nothing, put into a function that every attempt goes through.

By this the guard itself is tested. Of all that lies in the tests, only this file is counted.
"""

from collections.abc import Callable
from typing import Any

from duetime.tenancy.terms import GroupTerms


def spread(rounds: int) -> None:
    """Have every attempt go round so many times, for the rest of this process."""
    GroupTerms.__call__ = _wasteful(GroupTerms.__call__, rounds)


def _wasteful(function: Callable[..., Any], rounds: int) -> Callable[..., Any]:
    def wasted(*args: Any) -> Any:
        for _ in range(rounds):
            pass
        return function(*args)

    return wasted
