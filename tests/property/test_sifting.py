"""Filters that no store can answer, page by page: the same as looking at each timer in Python."""

import asyncio
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from duetime import metadata, model
from duetime.searching import Filter, Part, search
from duetime.stores.memory import MemoryStore
from duetime.timer import Kind, Outcome, Status, Timer
from tests.factories import claimed, insert, make_spec, make_timer

MOST_SEEN = 7  # so that pages end before they are full

TAGS = st.lists(st.sampled_from(["a", "b", "c"]), max_size=3, unique=True).map(tuple)
JSON = st.recursive(
    st.sampled_from([None, True, False, 0, 1, 1.0, 2, "1", "x", ""]),
    lambda each: st.lists(each, max_size=2) | st.dictionaries(st.sampled_from("ab0"), each),
    max_leaves=4,
)
PATHS = st.sampled_from(["a", "b", "0", "a.b", "a.0", "a.0.b", "b.1"])
TEXT = st.sampled_from(["Straße", "STRASSE", "a%b", "x", "timeout"])


@st.composite
def timers(draw: st.DrawFn) -> Timer:
    spec = make_spec(
        tags=draw(TAGS),
        name=draw(st.none() | TEXT),
        metadata=draw(JSON.map(lambda each: Raw(msgspec.json.encode(each)))),
    )
    fields = {
        "group": draw(st.sampled_from(["g", "h", "i"])),
        "created_at": 1_750_000_000_000 + draw(st.integers(0, 3)),
        "execute_at": 1_750_000_100_000 + draw(st.integers(0, 3)),
    }
    timer = make_timer(spec=spec, **fields)
    end = draw(st.sampled_from(["", "cancel", "pause", "fail"]))
    if end == "fail":
        outcome = Outcome(kind=draw(st.sampled_from([Kind.HTTP, Kind.DNS])), error=draw(TEXT))
        return model.finish(claimed(timer), outcome, 1_750_000_000_000, 0.5)
    return getattr(model, end)(timer, 1_750_000_000_000) if end else timer


FILTERS = st.builds(
    Filter,
    statuses=st.lists(st.sampled_from(Status), max_size=2, unique=True).map(tuple),
    groups=st.none() | st.lists(st.sampled_from("ghi"), max_size=2, unique=True).map(tuple),
    tags=TAGS,
    any_tags=TAGS,
    name_prefix=st.none() | TEXT,
    name_contains=st.none() | st.sampled_from(["ss", "A%", "x"]),
    metadata=st.dictionaries(PATHS, JSON, max_size=1),
    last_error=st.none() | st.sampled_from(["TIME", "ß"]),
    outcome=st.none() | st.sampled_from([Kind.HTTP, Kind.DNS]),
    created_after=st.none() | st.just(1_750_000_000_001),
    execute_before=st.none() | st.just(1_750_000_100_002),
)


def is_wanted(timer: Timer, wanted: Filter) -> bool:
    """The same question, as plainly as it can be asked."""
    spec, progress = timer.spec, timer.progress
    conditions = [
        not wanted.statuses or timer.status in wanted.statuses,
        wanted.groups is None or timer.group in wanted.groups,
        set(wanted.tags) <= set(spec.tags),
        not wanted.any_tags or set(wanted.any_tags) & set(spec.tags),
        (spec.name or "").startswith(wanted.name_prefix or ""),
        wanted.name_contains is None
        or wanted.name_contains.casefold() in (spec.name or "").casefold(),
        wanted.last_error is None
        or wanted.last_error.casefold() in (progress.last_error or "").casefold(),
        wanted.outcome is None or (progress.outcome and progress.outcome.kind is wanted.outcome),
        timer.created_at >= (wanted.created_after or 0),
        timer.execute_at < (wanted.execute_before or 2**60),
        all(
            _lies_at(msgspec.json.decode(spec.metadata), *each) for each in wanted.metadata.items()
        ),
    ]
    return all(conditions)


def _lies_at(document: Any, path: str, value: Any) -> bool:
    for step in path.split("."):
        try:
            document = document[int(step) if isinstance(document, list) else step]
        except (KeyError, IndexError, TypeError, ValueError):
            return False
    return _spelled(document) == _spelled(value)


def _spelled(value: Any) -> Any:
    """A value in which what Python holds to be equal and JSON does not are told apart."""
    if isinstance(value, list):
        return [_spelled(each) for each in value]
    if isinstance(value, dict):
        return {key: _spelled(each) for key, each in value.items()}
    return ("bool", value) if isinstance(value, bool) else value


async def pages(store: MemoryStore, wanted: Filter, part: Part) -> list[Timer]:
    """Everything that is found, from page to page."""
    found: list[Timer] = []
    while True:
        page = await search(store.search, "default", wanted, part, most_seen=MOST_SEEN)
        assert len(page.timers) <= part.limit
        found += page.timers
        place = page.stopped_at
        if len(page.timers) == part.limit:
            place = getattr(page.timers[-1], part.sort), page.timers[-1].id
        if place is None:
            return found
        part = msgspec.structs.replace(part, after=place, with_total=None)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(timers(), max_size=20),
    FILTERS,
    st.sampled_from(["created_at", "execute_at"]),
    st.booleans(),
    st.integers(1, 6),
)
@pytest.mark.slow
def test_page_by_page(made, wanted, sort, descending, limit):
    """Every timer that is wanted is found once, in order, and no other."""

    async def found() -> list[Timer]:
        store = MemoryStore()
        await insert(store, *made)
        part = Part(sort=sort, descending=descending, limit=limit)
        return await pages(store, wanted, part)

    expected = sorted(
        (timer for timer in made if is_wanted(timer, wanted)),
        key=lambda timer: (getattr(timer, sort), timer.id),
        reverse=descending,
    )
    assert asyncio.run(found()) == expected


@given(FILTERS)
def test_a_filter_survives_its_record(wanted: Filter):
    """What an action keeps of a filter is the filter."""
    assert msgspec.json.decode(msgspec.json.encode(wanted), type=Filter) == wanted


@given(JSON, JSON)
def test_equality(one, other):
    """1 is 1.0, but true is not 1, however deep."""
    assert metadata.are_equal(one, other) == (_spelled(one) == _spelled(other))
