"""Small versioned documents."""

import asyncio

import pytest

from duetime.stores import Record

pytestmark = pytest.mark.promise("one-contract")


def node(name="one", version=1, data=b"{}"):
    return Record(kind="node", name=name, version=version, data=data)


async def test_a_new_record_is_stored_once(store):
    """A document is stored where there is none of that kind and name yet."""
    assert await store.put_record(None, node())
    assert not await store.put_record(None, node(data=b"other"))
    assert await store.records("node") == [node()]


async def test_records_come_by_name_and_kind(store):
    """Documents of a kind come in the order of their names, without those of other kinds."""
    for name in ("b", "a", "ä", "B"):
        assert await store.put_record(None, node(name))
    assert await store.put_record(None, Record(kind="tenant", name="a"))
    assert [record.name for record in await store.records("node")] == ["B", "a", "b", "ä"]
    assert await store.records("tenant") == [Record(kind="tenant", name="a")]
    assert await store.records("calendar") == []


async def test_any_bytes_are_kept(store):
    """A document's data comes back byte for byte."""
    record = node(data=bytes(range(256)))
    assert await store.put_record(None, record)
    assert await store.records("node") == [record]


async def test_a_record_is_replaced_by_version(store):
    """A document is replaced only by whoever read its newest version."""
    first, second = node(), node(version=2, data=b"2")
    assert await store.put_record(None, first)
    assert await store.put_record(first, second)
    assert not await store.put_record(first, node(version=2, data=b"late"))
    assert await store.records("node") == [second]


async def test_a_record_is_replaced_by_one_that_is_the_same(store):
    """Whoever read the newest version has it written, also if that changes nothing."""
    assert await store.put_record(None, node())
    assert await store.put_record(node(), node())
    assert await store.records("node") == [node()]


async def test_a_record_whose_version_is_ahead_is_not_touched(store):
    """Only the very version that was read counts, not a higher one."""
    assert await store.put_record(None, node())
    assert not await store.put_record(node(version=2), node(version=3))
    assert not await store.put_record(node(version=2), None)
    assert await store.records("node") == [node()]


async def test_a_record_that_is_gone_is_not_replaced(store):
    """A document that somebody removed does not come back by a replacement."""
    assert not await store.put_record(node(), node(version=2))
    assert await store.records("node") == []


async def test_a_record_is_removed_by_version(store):
    """A document is removed only by whoever read its newest version."""
    assert await store.put_record(None, node(version=3))
    assert not await store.put_record(node(version=2), None)
    assert await store.put_record(node(version=3), None)
    assert not await store.put_record(node(version=3), None)
    assert await store.records("node") == []


async def test_of_many_concurrent_writers_one_wins(store):
    """Of many that replace one version at once, exactly one succeeds."""
    assert await store.put_record(None, node())
    rivals = [node(version=2, data=bytes([number])) for number in range(20)]
    answers = await asyncio.gather(*(store.put_record(node(), rival) for rival in rivals))
    assert answers.count(True) == 1
    assert await store.records("node") == [rivals[answers.index(True)]]


async def test_nothing_to_put_is_refused(store):
    """No old and no new document is no change."""
    assert not await store.put_record(None, None)


async def test_of_two_that_show_themselves_one_sees_the_other(store):
    """Who writes a document and looks for another kind then is seen, or sees who did the same."""

    async def come(kind, other, name):
        assert await store.put_record(None, Record(kind=kind, name=name))
        return any(record.name == name for record in await store.records(other))

    for number in range(10):
        name = f"{number}"
        seen = await asyncio.gather(come("node", "copy", name), come("copy", "node", name))
        assert any(seen)
