"""Values for PostgreSQL: texts that its own type cannot hold, and sets of shards."""

from hypothesis import given
from hypothesis import strategies as st

from duetime import ids
from duetime.stores import Change, Insert, Query, Record
from duetime.stores.codec import shard_set
from duetime.stores.postgres.values import columns, escaped, unescaped
from tests.factories import (
    NOW,
    claimed,
    completed,
    key_of,
    make_attempt,
    make_event,
    make_spec,
    make_timer,
)

TEXTS = st.text(
    st.sampled_from("\0\x01\x02\x03 aAzé\x7f\x80\u07ff\u0800\uffff\U00010000\U0010ffff")
)


@given(TEXTS)
def test_every_text_comes_back(text):
    """And what is written has no character that PostgreSQL refuses."""
    assert "\0" not in escaped(text)
    assert unescaped(escaped(text)) == text


@given(TEXTS, TEXTS)
def test_the_order_of_texts_is_kept(one, other):
    """So a list is sorted, and a prefix is a range, as if nothing had been rewritten."""
    assert (escaped(one) < escaped(other)) == (one < other)
    assert (escaped(one).encode() < escaped(other).encode()) == (one < other)


@given(st.sets(st.integers(0, ids.SHARDS - 1), max_size=50))
def test_a_set_of_shards_has_a_bit_for_each(shards):
    """In the order in which PostgreSQL's get_bit counts them."""
    bits = shard_set(shards)
    assert {n for n in range(ids.SHARDS) if bits[n // 8] >> n % 8 & 1} == shards


def test_all_shards_need_no_filter():
    """A node that owns every shard filters none; an empty set is still a filter."""
    assert shard_set(ids.ALL_SHARDS) is None
    assert not any(shard_set([]))


def test_rows_become_columns():
    """Also where there is no row."""
    assert columns([(1, "a"), (2, "b")]) == [[1, 2], ["a", "b"]]
    assert columns([], 2) == [[], []]


async def test_odd_texts_go_through_every_column(postgres):
    """NUL and its neighbour, in all that a user or a node may write, found and sorted."""
    odd = ["a", "a\0", "a\0b", "a\x01", "a\x01\x01", "a\x01\x02", "a\x02", "\0", "\x01"]
    timers = [
        make_timer(
            tenant="\0\x01",
            group=text,
            timer_id=text,
            spec=make_spec(name=text, tags=(text, "\0"), correlation_id=text),
        )
        for text in odd
    ]
    inserts = [
        Insert(timer, (make_event(timer, data={text: text}),))
        for timer, text in zip(timers, odd, strict=True)
    ]
    assert await postgres.insert(inserts) == [None] * len(odd)
    assert await postgres.insert(inserts) == timers
    assert await postgres.get_by_key([key_of(timer) for timer in timers]) == timers
    told = await postgres.events(ids.ALL_SHARDS, None, 100)
    assert sorted(event.id for event in told) == sorted(each.events[0].id for each in inserts)
    assert {text for event in told for text in event.data} == set(odd)
    for text, timer in zip(odd, timers, strict=True):
        for query in (
            Query(tenant="\0\x01", group=text),
            Query(tenant="\0\x01", tag=text),
            Query(tenant="\0\x01", correlation_id=text),
        ):
            found = (await postgres.search(query)).timers
            assert timer in found
            assert len(found) == (len(odd) if query.tag == "\0" else 1)
        by_name = await postgres.search(Query(tenant="\0\x01", name_prefix=text))
        assert {each.spec.name for each in by_name.timers} == {
            other for other in odd if other.startswith(text)
        }
    log = make_attempt(claimed(timers[1]), node="n\0\x01")
    await postgres.apply([Change(timers[1], claimed(timers[1]))])
    assert await postgres.apply([Change(claimed(timers[1]), completed(timers[1]), log)]) == [True]
    assert await postgres.attempts(timers[1].id, None, 10) == [log]
    assert await postgres.purge(ids.ALL_SHARDS, NOW * 2, 10) == 1
    for text in odd:
        assert await postgres.put_record(None, Record(kind="\0", name=text, data=b"\0\1"))
    assert [record.name for record in await postgres.records("\0")] == sorted(odd)
