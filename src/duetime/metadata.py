"""Metadata: what lies at a path in it, and whether that equals what somebody looks for.

A path is keys joined by dots; in an array, the number of an item. A key that has a dot in it cannot
be reached. ``null`` equals a null that is there, and not that there is nothing.
"""

import json
import math
from typing import Any

import msgspec
from msgspec import Raw

from duetime.decoding import DEEPEST
from duetime.errors import InvalidRequest

LONGEST_PATH = 512
_LONGEST_INDEX = 9  # digits

NOTHING = object()  # what lies where there is nothing


def steps_of(path: str) -> tuple[str, ...]:
    """The keys that a path goes by, or what is wrong with it."""
    if len(path) > LONGEST_PATH:
        raise InvalidRequest(f"metadata: a path must have a length <= {LONGEST_PATH}")
    steps = tuple(path.split("."))
    if not all(steps):
        raise InvalidRequest('metadata: a path is keys joined by dots, such as "customer.id"')
    if len(steps) > DEEPEST:
        raise InvalidRequest(f"metadata: a path must have at most {DEEPEST} steps")
    return steps


def check_value(value: Any) -> None:
    """Refuse what no metadata can have in it."""
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidRequest("metadata: a number is out of range")
    if isinstance(value, list):
        for item in value:
            check_value(item)
    if isinstance(value, dict):
        for item in value.values():
            check_value(item)


def read(metadata: Raw) -> Any:
    """The metadata of a timer; of what nobody can read, nothing."""
    try:
        return msgspec.json.decode(metadata)
    except msgspec.MsgspecError:
        pass  # a number beyond any range, or half of a pair of surrogates: JSON allows both
    try:
        return json.loads(bytes(metadata))
    except (ValueError, RecursionError):
        return NOTHING


def at(document: Any, steps: tuple[str, ...]) -> Any:
    """What lies there."""
    for step in steps:
        if isinstance(document, dict):
            document = document.get(step, NOTHING)
        elif isinstance(document, list) and _is_index(step) and int(step) < len(document):
            document = document[int(step)]
        else:
            return NOTHING
    return document


def are_equal(one: Any, other: Any) -> bool:
    """Tell whether two values are the same in JSON: 1 is 1.0, but true is not 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(are_equal, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(are_equal(one[key], other[key]) for key in one)
    return bool(one == other)


def _is_index(step: str) -> bool:
    return (
        step.isascii()
        and step.isdigit()
        and len(step) <= _LONGEST_INDEX
        and (step == "0" or step[0] != "0")
    )
