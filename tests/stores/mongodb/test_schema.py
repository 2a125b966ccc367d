"""The collections and their indexes: made once, by many at once, and by no older program."""

import asyncio
import uuid

import pytest
from pymongo import AsyncMongoClient

from duetime import ids, model
from duetime.errors import ConfigurationError
from duetime.stores import Change, Insert
from duetime.stores.mongodb.address import Address
from duetime.stores.mongodb.connection import connect, database_of
from duetime.stores.mongodb.documents import to_document
from duetime.stores.mongodb.schema import DROP, HISTORY, SHARD_KEY, STEPS, TIMERS, migrate
from duetime.stores.mongodb.store import MongodbStore
from tests.factories import NOW, completed, insert, key_of, make_line, make_spec, make_timer


@pytest.fixture
async def new_url(server_url):
    """The URL of a database that nobody has used yet."""
    url = server_url("mongodb").replace("/duetime?", f"/test_new_{uuid.uuid4().hex[:16]}?")
    yield url
    async with AsyncMongoClient(url) as client:
        await client.drop_database(client.get_default_database())


async def test_many_nodes_start_at_once(new_url):
    """All find the same collections, with every index."""
    stores = [MongodbStore(Address.parse(new_url)) for _ in range(5)]
    await asyncio.gather(*(store.migrate() for store in stores))
    await insert(stores[0], make_timer())
    database = stores[0]._opened.database
    assert await database[HISTORY].count_documents({}) == len(STEPS)
    names = {index.document["name"] for index in (*TIMERS, SHARD_KEY, DROP)} - {"key", "finished"}
    assert set(await database["timers"].index_information()) == {"_id_", *names}
    assert (await database["news"].options())["capped"]
    for store in stores:
        await store.close()


@pytest.mark.parametrize("is_built", [False, True])
async def test_a_step_that_was_cut_off_is_made_again(new_url, is_built):
    """Keys are unique all the while: the old index goes when the new one is there."""
    address = Address.parse(new_url)
    timer = make_timer()
    async with connect(address) as client:
        database = database_of(client, address)
        await migrate(database, STEPS[:1])
        await database["timers"].insert_one(to_document(Insert(timer)))
        if is_built:  # and neither was the old one dropped, nor the step noted
            await database["timers"].create_indexes([SHARD_KEY])
        store = MongodbStore(address)
        await store.migrate()
        await STEPS[1].make(database)  # a second time, as another node may
        unique = [
            name
            for name, index in (await database["timers"].index_information()).items()
            if index.get("unique")
        ]
        assert unique == ["shard_key"]
        same = make_timer(timer_id=timer.timer_id)
        assert await store.insert([Insert(same)]) == [timer]
        assert await store.get_by_key([key_of(timer)]) == [timer]
        await store.close()


async def test_an_old_database_goes_on_without_loss(new_url):
    """What an older version wrote is there, is dropped as ever, and may get its own retention."""
    address = Address.parse(new_url)
    waiting, kept, gone = make_timer(), *(completed(make_timer()) for _ in range(2))
    async with connect(address) as client:
        database = database_of(client, address)
        await migrate(database, STEPS[:3])
        await database["timers"].insert_many(
            [to_document(Insert(timer)) for timer in (waiting, kept, gone)]
        )
    store = MongodbStore(address)
    await store.migrate()
    assert await store.get([timer.id for timer in (waiting, kept, gone)]) == [waiting, kept, gone]
    own = model.replace(kept, NOW, spec=make_spec(retention=9), execute_at=NOW, fingerprint=None)
    canceled = model.cancel(own, NOW + 1)
    assert await store.apply([Change(kept, own)]) == [True]
    assert await store.apply([Change(own, canceled)]) == [True]
    assert await store.purge(ids.ALL_SHARDS, NOW * 2, 10) == 1
    assert await store.scan(None, 10) == sorted([waiting, canceled], key=lambda timer: timer.id)
    assert await store.drop_outlived(ids.ALL_SHARDS, NOW + 10, 10) == 1
    line = make_line()
    await store.write_lines([line], None)
    assert await store.lines("default", None, 10, descending=True) == [line]
    await store.close()


async def test_a_newer_schema_is_refused(mongodb, database):
    """Unless it says that this program can live with it."""
    newer = STEPS[-1].number + 1
    try:
        await database[HISTORY].insert_one({"_id": newer, "name": "add", "oldest": 1})
        await migrate(database, STEPS)
        await database[HISTORY].update_one({"_id": newer}, {"$set": {"oldest": newer}})
        with pytest.raises(ConfigurationError, match=r"made by a newer Duetime .*: upgrade"):
            await migrate(database, STEPS)
    finally:
        await database[HISTORY].delete_one({"_id": newer})


async def test_what_must_exist_is_not_made(new_url):
    """A database without timers, or with an older schema, is refused as it is."""
    store = MongodbStore(Address.parse(new_url), must_exist=True)
    with pytest.raises(ConfigurationError, match="there are no timers in the database test_new_"):
        await store.migrate()
    async with AsyncMongoClient(new_url) as client:
        database = client.get_default_database()
        assert await database.list_collection_names() == []
        maker = MongodbStore(Address.parse(new_url))
        await maker.migrate()
        await maker.close()
        await store.migrate()
        newer = [*STEPS, STEPS[-1]._replace(number=STEPS[-1].number + 1)]
        with pytest.raises(ConfigurationError, match="run duetime migrate on it first"):
            await migrate(database, newer, must_exist=True)
    await store.close()


async def test_who_may_not_is_told_what_to_grant(new_url):
    """The error names the role, and what it must be on."""
    name = Address.parse(new_url).database
    async with AsyncMongoClient(new_url) as client:
        await client[name].command("createUser", "guest", pwd="guest", roles=["read"])
        guest = new_url.replace("authSource=admin", f"authSource={name}")
        guest = f"mongodb://guest:guest@{guest.partition('@')[2]}"
        store = MongodbStore(Address.parse(guest))
        with pytest.raises(ConfigurationError, match=f"grant the role readWrite on {name}"):
            await store.migrate()
        await store.close()
        await client[name].command("updateUser", "guest", roles=["readWrite"])
        store = MongodbStore(Address.parse(guest))
        await store.migrate()
        await insert(store, make_timer())
        await store.close()
        await client[name].command("dropUser", "guest")


async def test_a_server_alone_is_refused(mongodb, monkeypatch):
    """Without a replica set nothing could be settled, and the error says how to make one."""
    database = mongodb._opened.database

    async def hello(*_):
        return {"isWritablePrimary": True}

    monkeypatch.setattr(type(database), "command", hello)
    with pytest.raises(ConfigurationError, match="--replSet"):
        await migrate(database, STEPS)


async def test_two_databases_of_one_server_are_two_worlds(mongodb, new_url):
    """They do not see each other."""
    timer = make_timer()
    await insert(mongodb, timer)
    other = MongodbStore(Address.parse(new_url))
    await other.migrate()
    assert await other.get([timer.id]) == [None]
    assert database_of(other._client, other._address).name != mongodb._address.database
    await other.close()


async def test_what_must_exist_is_only_read(new_url):
    """No write comes from looking: not even that by which reads are made to see the newest."""
    made = MongodbStore(Address.parse(new_url))
    await made.migrate()
    async with connect(Address.parse(new_url)) as client:
        database = database_of(client, Address.parse(new_url))
        before = await database["fences"].count_documents({})
        store = MongodbStore(Address.parse(new_url), must_exist=True)
        await store.migrate()
        assert await store.records("node") == []
        assert await store.get(["x"]) == [None]
        assert await database["fences"].count_documents({}) == before
    await store.close()
    await made.close()
