"""Searching the timers of one tenant."""

import itertools
import re
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.structs import replace

from duetime import listing
from duetime.errors import UnsupportedQuery
from duetime.searching import Filter, Part
from duetime.stores import Query, Store
from duetime.stores.dynamodb import walks
from duetime.stores.walking import walk
from duetime.tenancy.caller import OPERATOR
from duetime.timer import Status, Timer
from tests.factories import NOW, insert, make_spec, make_timer

pytestmark = pytest.mark.promise("one-contract")


async def found(store, **filters):
    """The timers that a query answers with."""
    return (await store.search(Query(tenant="default", **filters))).timers


async def is_refused(store, query):
    """Tell whether the store's traits rule a query out; if so, it must be refused."""
    try:
        store.traits.check(query)
    except UnsupportedQuery as expected:
        with pytest.raises(UnsupportedQuery, match=f"^{re.escape(str(expected))}$"):
            await store.search(query)
        return True
    return False


async def test_newest_first_by_default(store):
    """Without a filter all timers of the tenant come, the newest first."""
    timers = [make_timer(created_at=NOW + place) for place in range(3)]
    await insert(store, *timers)
    assert await found(store) == timers[::-1]


async def test_tenants_never_see_each_other(store):
    """No filter reaches into another tenant."""
    spec = make_spec(name="name", tags=("tag",), correlation_id="same")
    mine = make_timer(tenant="mine", group="g", spec=spec)
    other = make_timer(tenant="other", group="g", spec=spec)
    await insert(store, mine, other)
    filters: list[dict[str, Any]] = [
        {},
        {"tag": "tag"},
        {"name_prefix": "na"},
        {"correlation_id": "same"},
        {"group": "g"},
        {"status": Status.PENDING},
        {"sort": "execute_at", "descending": False},
    ]
    for wanted in filters:
        query = Query(tenant="mine", with_total=store.traits.counts, **wanted)
        if not await is_refused(store, query):
            page = await store.search(query)
            assert page.timers == [mine]
            assert page.total == (1 if store.traits.counts else None)


async def test_by_status(store, subtests):
    """A status finds the timers that have it."""
    timers = {each: make_timer(status=each) for each in Status}
    await insert(store, *timers.values())
    for status, timer in timers.items():
        with subtests.test(status.value):
            assert await found(store, status=status) == [timer]
            by_time = Query(tenant="default", status=status, sort="execute_at")
            if not await is_refused(store, by_time):
                assert (await store.search(by_time)).timers == [timer]


async def test_by_tag(store):
    """A tag finds the timers that have it among theirs."""
    tagged = make_timer(spec=make_spec(tags=("a", "b")))
    await insert(store, tagged, make_timer(spec=make_spec(tags=("ab",))), make_timer())
    assert await found(store, tag="a") == [tagged]
    assert await found(store, tag="b") == [tagged]
    assert await found(store, tag="") == []


BEGINNINGS = {
    "a": {"a", "ab", "a%b", "a_b", "a*", "a\U0010ffff"},
    "a%": {"a%b"},
    "a_": {"a_b"},
    "a*": {"a*"},
    "A": {"Ab"},
    "\ud7ff": {"\ud7ffx"},
    "a\U0010ffff": {"a\U0010ffff"},
    "\U0010ffff": {"\U0010ffff\U0010ffff"},
    "zz": set(),
}


async def test_by_the_beginning_of_a_name(store, subtests):
    """A prefix is compared letter by letter: case counts, and wildcards are plain letters."""
    every = ["a", "ab", "a%b", "a_b", "a*", "Ab", "b", "\ud7ffx", "\ue000"]
    every += ["a\U0010ffff", "\U0010ffff\U0010ffff", None]
    await insert(store, *(make_timer(spec=make_spec(name=name)) for name in every))
    for prefix, names in BEGINNINGS.items():
        with subtests.test(ascii(prefix)):
            assert {timer.spec.name for timer in await found(store, name_prefix=prefix)} == names


async def test_by_times(store):
    """Ranges of time include their beginning and not their end."""
    timers = [make_timer(created_at=NOW + at, execute_at=NOW + 100 + at) for at in range(4)]
    await insert(store, *timers)
    middle = timers[2:0:-1]
    assert await found(store, created_after=NOW + 1, created_before=NOW + 3) == middle
    assert await found(store, execute_after=NOW + 101, execute_before=NOW + 103) == middle
    assert await found(store, created_after=NOW + 2, execute_before=NOW + 103) == [timers[2]]


async def test_by_correlation_id(store):
    """A correlation id finds all timers that share it, in order."""
    timers = [
        make_timer(created_at=NOW + at, spec=make_spec(correlation_id="same")) for at in range(3)
    ]
    await insert(store, *timers, make_timer())
    assert await found(store, correlation_id="same") == timers[::-1]


async def test_the_total_counts_all_matches(store):
    """The total ignores limit, offset and cursor, and is only given where asked for."""
    timers = [make_timer(created_at=NOW + at, group="g") for at in range(5)]
    await insert(store, *timers, make_timer())
    last = (timers[3].created_at, timers[3].id)
    query = Query(tenant="default", group="g", limit=1, offset=1, after=last, with_total=True)
    if not await is_refused(store, query):
        page = await store.search(query)
        assert page.timers == [timers[1]]
        assert page.total == 5
    assert (await store.search(Query(tenant="default"))).total is None


async def test_the_cursor_may_point_at_a_timer_that_is_gone(store):
    """A page goes on behind the last place, though nothing is there any more."""
    timers = [make_timer(created_at=NOW + at) for at in (0, 2)]
    await insert(store, *timers)
    gone = make_timer(created_at=NOW + 1)
    assert await found(store, after=(gone.created_at, gone.id)) == [timers[0]]


async def test_offset_and_limit(store):
    """A page can also be reached by counting; behind the end there is nothing."""
    timers = [make_timer(created_at=NOW + at) for at in range(5)]
    await insert(store, *timers)
    assert await found(store, descending=False, offset=1, limit=2) == timers[1:3]
    assert await found(store, offset=9) == []
    assert await found(store, limit=0) == []


FILTERS = [{}, {"tag": "t"}, {"name_prefix": "n"}, {"group": "default"}]


async def test_paging_without_gaps_or_repeats(store, subtests):
    """Page by page behind the cursor, every match is seen once, in order, ties by id."""
    spec = make_spec(tags=("t",), name="n")
    timers = [
        make_timer(created_at=NOW + at // 4, execute_at=NOW + 100 - at // 3, spec=spec)
        for at in range(23)
    ]
    await insert(store, *timers)
    for sort, descending in itertools.product(("created_at", "execute_at"), (True, False)):
        order = {"sort": sort, "descending": descending}
        if await is_refused(store, Query(tenant="default", **order)):
            continue
        expected = sorted(timers, key=lambda t: (getattr(t, sort), t.id), reverse=descending)
        for filters in FILTERS:
            with subtests.test(**order, filters=filters):
                assert await pages(store, **order, **filters) == expected


async def test_a_list_that_is_read_some_at_a_time_is_whole(store, monkeypatch, subtests):
    """Portion by portion comes what would come at once, in the same order, with the same total."""
    monkeypatch.setattr(listing, "FIRST", 4)
    monkeypatch.setattr(listing, "HEAVIEST", 20_000)
    spec = make_spec(metadata=Raw(b'"%s"' % (b"x" * 3_000)), tags=("t",))
    timers = [
        make_timer(created_at=NOW + at // 4, execute_at=NOW + 100 - at // 3, spec=spec)
        for at in range(23)
    ]
    await insert(store, *timers)
    lists = listing.Lists(store.search, counts=store.traits.counts)
    for sort, descending in itertools.product(("created_at", "execute_at"), (True, False)):
        order = {"sort": sort, "descending": descending}
        if await is_refused(store, Query(tenant="default", **order)):
            continue
        expected = sorted(timers, key=lambda t: (getattr(t, sort), t.id), reverse=descending)
        for wanted, limit in itertools.product((Filter(), Filter(tags=("t",))), (17, 50)):
            with subtests.test(**order, wanted=wanted, limit=limit):
                page = await lists.page(OPERATOR, wanted, Part(**order, limit=limit))
                assert page.timers == [listing.in_short(each) for each in expected[:limit]]
                assert page.total == (len(timers) if store.traits.counts else None)


@pytest.mark.parametrize("descending", [True, False])
async def test_among_many_of_others_all_is_found(store, monkeypatch, descending):
    """Wherever a page has to end, the next one goes on, and nothing is left out or comes twice."""
    monkeypatch.setattr(walk, "__defaults__", (10,))
    own = {3, 4, 30, 59}
    timers = [
        make_timer(
            tenant="default" if at in own else f"other{at % 2}",
            created_at=NOW + at // 2,
            **({"timer_id": f"k{at}"} if at % 3 == 0 else {}),
        )
        for at in range(60)
    ]
    await insert(store, *timers)
    seen, after, is_over = [], None, False
    while not is_over:
        query = Query(tenant="default", limit=3, descending=descending, after=after)
        page = await store.search(query)
        seen += page.timers
        if after := page.stopped_at:
            continue
        is_over = len(page.timers) < 3
        after = None if is_over else (page.timers[-1].created_at, page.timers[-1].id)
    mine = [timer for timer in timers if timer.tenant == "default"]
    assert seen == sorted(mine, key=lambda timer: timer.id, reverse=descending)


@pytest.mark.parametrize("every", [1, 4, 10, 1_000])
async def test_a_page_is_bounded_by_what_was_looked_at(store, monkeypatch, every):
    """However few of them are the tenant's own, where a store looks at those of all tenants."""
    monkeypatch.setattr(walk, "__defaults__", (30,))
    monkeypatch.setattr(walks, "_SHORTEST", 10)
    timers = [
        make_timer(tenant="other" if at % every else "default", created_at=NOW + at, shard=1)
        for at in range(100)
    ]
    await insert(store, *timers)
    page = await store.search(Query(tenant="default", tag="none", descending=False))
    assert page.timers == []
    if store.traits.engine in {"Cassandra", "DynamoDB"}:
        assert page.stopped_at is not None
        assert NOW + 20 < page.stopped_at[0] < NOW + 60


async def pages(store: Store, *, sort: str, **wanted: Any) -> list[Timer]:
    """What is found page by page, each behind the last one's end."""
    seen: list[Timer] = []
    after = None
    while page := await found(store, sort=sort, after=after, limit=5, **wanted):
        seen += page
        after = (getattr(page[-1], sort), page[-1].id)
    return seen


# The property: a search is the filtering of a list ---------------------------------------------

examples = itertools.count()
few_times = st.integers(NOW, NOW + 5)
few_names = st.sampled_from(["a", "ab", "b%", "%", "é"])
few_tags = st.sampled_from(["x", "y", "z"])
few_words = st.sampled_from(["one", "two"])


@st.composite
def timers(draw):
    return make_timer(
        tenant=draw(few_words),
        group=draw(few_words),
        status=draw(st.sampled_from(Status)),
        created_at=draw(few_times),
        execute_at=draw(few_times),
        spec=make_spec(
            name=draw(st.none() | few_names),
            tags=tuple(draw(st.lists(few_tags, max_size=3))),
            correlation_id=draw(few_words),
        ),
    )


@st.composite
def queries(draw):
    return Query(
        tenant=draw(few_words),
        status=draw(st.none() | st.sampled_from(Status)),
        group=draw(st.none() | few_words),
        tag=draw(st.none() | few_tags),
        name_prefix=draw(st.none() | few_names),
        correlation_id=draw(st.none() | few_words),
        created_after=draw(st.none() | few_times),
        created_before=draw(st.none() | few_times),
        execute_after=draw(st.none() | few_times),
        execute_before=draw(st.none() | few_times),
        sort=draw(st.sampled_from(["created_at", "execute_at"])),
        descending=draw(st.booleans()),
        limit=draw(st.integers(0, 8)),
        offset=draw(st.integers(0, 4)),
        after=draw(st.none() | st.tuples(few_times, st.sampled_from(["", "g"]))),
        with_total=draw(st.booleans()),
    )


def expected_page(stored, query):
    """What the query means, said another way."""
    unless = [
        (query.status, lambda t: t.status == query.status),
        (query.group, lambda t: t.group == query.group),
        (query.tag, lambda t: query.tag in t.spec.tags),
        (query.name_prefix, lambda t: t.spec.name and t.spec.name.startswith(query.name_prefix)),
        (query.correlation_id, lambda t: t.spec.correlation_id == query.correlation_id),
        (query.created_after, lambda t: query.created_after <= t.created_at),
        (query.created_before, lambda t: t.created_at < query.created_before),
        (query.execute_after, lambda t: query.execute_after <= t.execute_at),
        (query.execute_before, lambda t: t.execute_at < query.execute_before),
    ]
    tests = [test for value, test in unless if value is not None]
    matches = [t for t in stored if t.tenant == query.tenant and all(test(t) for test in tests)]
    ordered = sorted(matches, key=lambda t: (getattr(t, query.sort), t.id))
    places = [(getattr(t, query.sort), t.id) for t in ordered]
    if query.descending:
        ordered.reverse()
        places.reverse()
    if query.after is not None:
        ordered = [
            t
            for t, place in zip(ordered, places, strict=True)
            if (place < query.after if query.descending else place > query.after)
        ]
    return ordered[query.offset :][: query.limit], len(matches) if query.with_total else None


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    stored=st.lists(timers(), max_size=12),
    asked=st.lists(queries(), min_size=3, max_size=6),
)
async def test_a_search_is_the_filtering_of_a_list(store, stored, asked):
    """Whatever is stored and asked, the answer is what filtering a list gives."""
    # Examples share a store, so each has tenants of its own.
    example = next(examples)
    own = [replace(t, tenant=f"{t.tenant}-{example}") for t in stored]
    await insert(store, *own)
    for query in (replace(q, tenant=f"{q.tenant}-{example}") for q in asked):
        if not await is_refused(store, query):
            page = await store.search(query)
            assert (page.timers, page.total) == expected_page(own, query)
