"""What a sharded cluster needs: whoever knows a timer says its shard, and so reaches one server."""

from pymongo.topology_description import TOPOLOGY_TYPE

from duetime import ids
from duetime.stores import Change, Insert
from duetime.stores.mongodb import writes
from duetime.stores.mongodb.address import Address
from duetime.stores.mongodb.fate import settle
from duetime.stores.mongodb.store import MongodbStore
from tests.factories import (
    NOW,
    claim_of,
    claimed,
    completed,
    insert,
    key_of,
    make_attempt,
    make_event,
    make_timer,
)
from tests.stores.mongodb.said import Said


def filters(command):
    """The conditions of a command; or, of an insert, the documents."""
    if "filter" in command:
        condition = command["filter"]
        return condition.get("$or", [condition])
    if "documents" in command:
        return command["documents"]
    return [each["q"] for each in (*command.get("updates", ()), *command.get("deletes", ()))]


async def test_every_question_about_a_timer_says_its_shard(url, monkeypatch):
    """By id and by key, plain and with events, with a log beside it, up to its end."""
    monkeypatch.setattr(writes, "MOST_LINES", 2)
    said = Said(monkeypatch)
    store = MongodbStore(Address.parse(url))
    await store.migrate()
    said.commands.clear()
    plain, told = make_timer(), make_timer()
    await insert(store, plain)
    assert await store.insert([Insert(plain)]) == [plain]
    await store.insert([Insert(told, (make_event(told),))])
    await store.apply(
        [
            Change(plain, claimed(plain), make_attempt(plain)),
            Change(told, claimed(told), make_attempt(told), (make_event(told),)),
        ]
    )
    await store.apply([Change(claimed(plain), completed(plain), make_attempt(plain))])
    await store.get([plain.id, told.id])
    await store.get_by_key([key_of(plain), key_of(told)])
    await store.attempts(plain.id, None, 9)
    await store.due({plain.shard, told.shard}, None, NOW, 9)
    assert await store.purge({plain.shard}, 2**53, 9) == 1
    assert await store.remove([claimed(told)]) == [True]
    await store.close()
    about_timers = [command for name, command in said.commands if command.get(name) == "timers"]
    kinds = {next(iter(command)) for command in about_timers}
    assert kinds == {"insert", "find", "update", "delete"}
    for command in about_timers:
        assert all("shard" in condition for condition in filters(command)), command


async def test_in_a_sharded_cluster_a_lost_answer_is_said_to_be_unknown(database, monkeypatch):
    """Each shard has its own numbers: a later write on one says nothing of the others."""
    async with database.client.start_session() as session:
        assert await settle(database, session)
        described = database.client.topology_description
        monkeypatch.setattr(described, "_topology_type", TOPOLOGY_TYPE.Sharded)
        assert not await settle(database, session)


async def test_a_change_never_moves_a_timer_to_another_shard(mongodb, database):
    """The field is written once, with the timer: what is sharded by it stays where it is."""
    timer = make_timer()
    await insert(mongodb, timer)
    await mongodb.apply([claim_of(timer)])
    stored = await database["timers"].find_one({})
    assert stored["shard"] == timer.shard == ids.shard_of(timer.id)
