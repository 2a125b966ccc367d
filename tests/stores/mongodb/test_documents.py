"""How a timer is written and read back: in kinds that everybody knows."""

import msgspec
import pytest

from duetime import ids
from duetime.errors import StoreUnavailable
from duetime.stores import Change, Insert, Record
from duetime.stores.mongodb.documents import HEAVIEST, bound, first_id, from_id, to_id
from duetime.timer import HttpCallback
from tests.factories import NOW, claimed, insert, make_attempt, make_spec, make_timer

LARGE = 2**40


async def test_numbers_are_plain_numbers(mongodb):
    """Large ones too, for which the driver has a kind of its own: all can be written as JSON."""
    timer = make_timer(version=LARGE, executed_at=NOW)
    await insert(mongodb, timer)
    attempt = make_attempt(timer, occurrence=LARGE, attempt=LARGE, next_at=NOW)
    change = Change(timer, claimed(timer), attempt)
    assert await mongodb.apply([change]) == [True]
    record = Record(kind="node", name="one", version=LARGE)
    assert await mongodb.put_record(None, record)
    read = [
        await mongodb.get([timer.id]),
        await mongodb.attempts(timer.id, None, 9),
        await mongodb.due(ids.ALL_SHARDS, None, 2**50, 9),
        await mongodb.records("node"),
    ]
    assert all(read)
    assert msgspec.json.encode(read)
    assert type(read[0][0].wake_at) is int


def test_ids_keep_their_order():
    """As bytes they come in the order of the texts."""
    made = sorted(ids.new_id(NOW + number % 7, number) for number in range(100))
    assert sorted(map(to_id, made)) == [to_id(each) for each in made]
    assert [from_id(to_id(each)) for each in made] == made
    assert first_id(NOW) < to_id(made[0]) < first_id(NOW + 1)
    assert bound("") < to_id(made[0]) < bound("g")


async def test_a_text_may_hold_any_character(mongodb):
    """U+0000 among them, which ends a text in other places."""
    text = "a\0b\x01"
    timer = make_timer(
        tenant=text,
        group=text,
        timer_id=text,
        spec=make_spec(name=text, tags=(text,), correlation_id=text),
    )
    await insert(mongodb, timer)
    assert await mongodb.get([timer.id, text]) == [timer, None]


async def test_what_is_too_large_is_refused_before_anything_is_written(mongodb):
    """The message names the limit; eight mebibytes are no trouble."""

    def holding(size):
        payload = msgspec.Raw(b'"' + b"x" * size + b'"')
        return make_timer(
            spec=make_spec(callback=HttpCallback(url="http://a.example", payload=payload))
        )

    fine, other, large = holding(8 * 1024 * 1024), make_timer(), holding(HEAVIEST)
    await insert(mongodb, fine)
    with pytest.raises(StoreUnavailable, match=r"a document ends at 16 MiB: nothing was written"):
        await mongodb.insert([Insert(other), Insert(large)])
    assert await mongodb.get([fine.id, other.id, large.id]) == [fine, None, None]
