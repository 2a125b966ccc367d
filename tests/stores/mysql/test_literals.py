"""Values in statements: every text comes back as it was, and none is taken for SQL."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from duetime import ids
from duetime.errors import StoreUnavailable
from duetime.stores import Change, Insert, Query, Record
from duetime.stores.mysql import literals
from duetime.timer import HttpCallback
from tests.factories import (
    NOW,
    claimed,
    completed,
    insert,
    key_of,
    make_attempt,
    make_event,
    make_spec,
    make_timer,
)

ODD = ["a", "a ", "A", "ä", "a\0", "a\\", "a'", "a\\'", '"; --', "%_", "\x1a\n", "é😀", "\u2028"]


@given(st.text(st.sampled_from("\0\\'\"%_;aé😀\x1a\n")))
def test_a_quote_ends_a_text_only_at_its_end(text):
    """Read by MySQL's rules, a literal is the text again."""
    literal = literals.text(text)
    assert literal[0] == literal[-1] == "'"
    found, inside = [], iter(literal[1:-1])
    for char in inside:
        assert char != "'"
        found.append({"0": "\0"}.get(after := next(inside), after) if char == "\\" else char)
    assert "".join(found) == text


@given(st.sets(st.integers(0, ids.SHARDS - 1), max_size=50))
def test_a_set_of_shards_has_a_bit_for_each(shards):
    """A node that owns every shard filters none; an empty set is still a filter."""
    bits = bytes.fromhex(literals.in_shards(shards).split("'")[1])
    assert {n for n in range(ids.SHARDS) if bits[n // 8] >> n % 8 & 1} == shards
    assert literals.in_shards(ids.ALL_SHARDS) == ""


async def test_odd_texts_go_through_every_column(mysql):
    """In all that a user or a node may write, found and sorted; trailing spaces and case count."""
    tenant = "t'\\\0 "
    timers = [
        make_timer(
            tenant=tenant,
            group=text,
            timer_id=text,
            spec=make_spec(name=text, tags=(text, "'"), correlation_id=text),
        )
        for text in ODD
    ]
    inserts = [
        Insert(timer, (make_event(timer, data={text: text}),))
        for timer, text in zip(timers, ODD, strict=True)
    ]
    assert await mysql.insert(inserts) == [None] * len(ODD)
    assert await mysql.insert(inserts) == timers
    assert await mysql.get_by_key([key_of(timer) for timer in timers]) == timers
    told = await mysql.events(ids.ALL_SHARDS, None, 100)
    assert {text for event in told for text in event.data} == set(ODD)
    for text, timer in zip(ODD, timers, strict=True):
        for field in ("group", "tag", "correlation_id"):
            assert (await mysql.search(Query(tenant=tenant, **{field: text}))).timers == [timer]
        by_name = await mysql.search(Query(tenant=tenant, name_prefix=text))
        assert {each.spec.name for each in by_name.timers} == {
            other for other in ODD if other.startswith(text)
        }
    log = make_attempt(claimed(timers[1]), node="n'\\\0")
    await mysql.apply([Change(timers[1], claimed(timers[1]))])
    assert await mysql.apply([Change(claimed(timers[1]), completed(timers[1]), log)]) == [True]
    assert await mysql.attempts(timers[1].id, None, 10) == [log]
    for text in ODD:
        assert await mysql.put_record(None, Record(kind="'", name=text, data=b"'\0\\"))
    assert [record.name for record in await mysql.records("'")] == sorted(ODD)


async def test_the_longest_names_fit(mysql):
    """As many characters as a request may have, of four bytes each, in every index."""
    text = "😀" * 255
    timer = make_timer(
        tenant=text,
        group=text,
        timer_id=text,
        spec=make_spec(name=text, tags=("😀" * 128,), correlation_id=text),
    )
    await insert(mysql, timer)
    assert await mysql.get_by_key([key_of(timer)]) == [timer]
    found = await mysql.search(Query(tenant=text, tag="😀" * 128, name_prefix=text))
    assert found.timers == [timer]


async def test_what_is_no_text_is_refused(mysql):
    """Half a character has no bytes; the caller hears of it, and nothing is written."""
    timer = make_timer(timer_id="\ud800")
    with pytest.raises(StoreUnavailable):
        await mysql.insert([Insert(timer)])
    assert await mysql.get([timer.id]) == [None]
    await mysql.ping()


def heavy(size):
    """A timer whose payload takes so many bytes."""
    payload = Raw(b'"' + b"x" * size + b'"')
    return make_timer(spec=make_spec(callback=HttpCallback(url="https://e.com", payload=payload)))


async def test_a_batch_is_split_where_a_packet_ends(mysql):
    """Timers that are too heavy together go out one after the other, new and changed."""
    timers = [heavy(400_000) for _ in range(7)]
    await mysql.ping()
    for session in mysql._pool._idle:
        session.largest = 1_000_000
    await insert(mysql, *timers)
    anew = [Change(timer, claimed(timer)) for timer in timers]
    assert await mysql.apply(anew) == [True] * 7
    assert await mysql.get([timer.id for timer in timers]) == [each.new for each in anew]


async def test_a_timer_that_does_not_fit_is_refused_by_name(mysql):
    """Before anything is written, with the setting that is too low."""
    small, large = make_timer(), heavy(400_000)
    await mysql.ping()
    for session in mysql._pool._idle:
        session.largest = 200_000
    with pytest.raises(StoreUnavailable, match=r"max_allowed_packet, which is 200,000"):
        await mysql.insert([Insert(small), Insert(large)])
    assert await mysql.get([small.id, large.id]) == [None, None]


async def test_a_body_of_eight_mebibytes(mysql):
    """Is stored and read like any other; so is what is due beside it."""
    timer = heavy(8 * 1024 * 1024)
    await insert(mysql, timer)
    assert await mysql.get([timer.id]) == [timer]
    assert len(await mysql.due(ids.ALL_SHARDS, None, NOW * 2, 10)) == 1


async def test_a_body_of_nothing_but_escapes(mysql):
    """It takes a packet that is a third larger, and not twice as large."""
    payload = Raw(b'"' + b"'" * (8 * 1024 * 1024) + b'"')
    timer = make_timer(spec=make_spec(callback=HttpCallback(url="https://e.com", payload=payload)))
    await insert(mysql, timer)
    assert await mysql.get([timer.id]) == [timer]
