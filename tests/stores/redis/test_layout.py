"""How timers lie in Redis, and that nothing of them is left behind."""

import pytest

from duetime import ids, model
from duetime.stores import Change, Insert
from duetime.stores.redis import store as module
from duetime.timer import Status
from tests.factories import (
    NOW,
    claimed,
    completed,
    insert,
    key_of,
    make_attempt,
    make_event,
    make_line,
    make_spec,
    make_timer,
    with_spec,
)
from tests.servers.redis import session


async def names(url, store):
    """All keys of a store."""
    async with session(url) as client:
        return {each.decode() async for each in client.scan_iter(f"{store._address.prefix}:*")}


async def test_nothing_is_left_of_a_timer(redis, redis_url):
    """Once it is dropped and its events are told, only the mark of the schema is there."""
    timers = [make_timer(tenant=f"t{number % 3}") for number in range(20)]
    events = [make_event(timer) for timer in timers]
    inserts = [
        Insert(timer, (event,), (make_attempt(timer),))
        for timer, event in zip(timers, events, strict=True)
    ]
    await redis.insert(inserts)
    assert len(await names(redis_url, redis)) > 60
    done = [Change(timer, completed(timer), make_attempt(timer)) for timer in timers]
    assert all(await redis.apply(done))
    assert await redis.purge(ids.ALL_SHARDS, NOW + 1, 100) == 20
    await redis.published([event.id for event in events])
    assert await names(redis_url, redis) == {redis._name("schema")}


@pytest.mark.parametrize("is_dropped", [False, True], ids=["removed", "outlived"])
async def test_nothing_is_left_of_who_has_a_retention_of_its_own(redis, redis_url, is_dropped):
    """Whether it goes by that or by hand; nor of the lines of the audit."""
    timers = [
        make_timer(status=Status.FAILED, wake_at=None, spec=make_spec(retention=number))
        for number in range(9)
    ]
    await insert(redis, *timers)
    line = make_line()
    await redis.write_lines([line, line], None)
    assert redis._name("done") not in await names(redis_url, redis)
    if is_dropped:
        assert await redis.drop_outlived(ids.ALL_SHARDS, NOW + 8, 100) == 9
    else:
        assert await redis.remove(timers) == [True] * 9
    assert await redis.drop_lines(NOW + 1, 100) == 1
    assert await names(redis_url, redis) == {redis._name("schema")}


async def test_an_older_layout_is_taken_over(redis, redis_url):
    """Its timers go on, the number is raised, and whoever is given a retention is kept by it."""
    finished, pending = make_timer(status=Status.COMPLETED, wake_at=None), make_timer()
    await insert(redis, finished, pending)
    async with session(redis_url) as client:
        await client.set(redis._name("schema"), 1)
        store = module.RedisStore(redis._address)
        await store.migrate()
        assert int(await client.get(redis._name("schema"))) == module.SCHEMA
    assert await store.get([finished.id, pending.id]) == [finished, pending]
    kept = with_spec(pending, retention=5_000)
    assert await store.apply([Change(pending, kept)]) == [True]
    assert await store.apply([Change(kept, model.cancel(kept, NOW))]) == [True]
    assert await store.purge(ids.ALL_SHARDS, NOW + 1, 10) == 1
    assert await store.drop_outlived(ids.ALL_SHARDS, NOW + 5_000, 10) == 1
    await store.close()


async def test_what_an_older_program_began_anew_is_not_dropped(redis, redis_url):
    """It leaves the line behind by which the timer was to be dropped."""
    timer = make_timer(status=Status.FAILED, wake_at=None, spec=make_spec(retention=5))
    await insert(redis, timer)
    async with session(redis_url) as client:
        await client.hincrby(redis._name(f"timer:{timer.id}"), "version", 1)
        assert await redis.drop_outlived(ids.ALL_SHARDS, NOW + 5, 10) == 0
        assert await redis.get([timer.id]) != [None]
        assert await client.zcard(redis._name("outlived")) == 0


async def test_groups_of_any_name_are_counted(redis, monkeypatch):
    """Also in parts, and with what is written in another way in JSON."""
    monkeypatch.setattr(module, "LONGEST", 2)
    groups = ["\0", 'a"\\', "ü😀", "\0", "\x01"]
    await insert(redis, *(make_timer(group=group) for group in groups))
    found = {count.group: count.timers for count in await redis.count("default")}
    assert found == {"\0": 2, 'a"\\': 1, "ü😀": 1, "\x01": 1}


async def test_what_the_user_asked_for_is_written_once(redis, redis_url):
    """A claim leaves it as it is; a change of it replaces it."""
    timer = make_timer(spec=make_spec(name="old"))
    await insert(redis, timer)
    row = redis._name(f"timer:{timer.id}")
    async with session(redis_url) as client:
        await client.hset(row, "spec", (await client.hget(row, "spec")).replace(b"old", b"odd"))
        claim = Change(timer, claimed(timer))
        assert await redis.apply([claim]) == [True]
        assert (await redis.get([timer.id]))[0].spec.name == "odd"
        assert await redis.apply([Change(claim.new, with_spec(claim.new, name="new"))]) == [True]
        assert (await redis.get([timer.id]))[0].spec.name == "new"


async def test_what_is_dropped_does_not_wake(redis):
    """A finished timer that has a time to wake at is not purged; removed, it leaves nothing."""
    awake = make_timer(status=Status.FAILED, wake_at=NOW)
    await insert(redis, awake)
    assert len(await redis.due(ids.ALL_SHARDS, None, NOW, 9)) == 1
    assert await redis.purge(ids.ALL_SHARDS, NOW + 1, 9) == 0
    assert await redis.remove([awake]) == [True]
    assert await redis.due(ids.ALL_SHARDS, None, NOW, 9) == []


@pytest.mark.parametrize("limit", [1, 3, 50])
async def test_long_indexes_are_looked_through_in_parts(redis, monkeypatch, limit):
    """However few of the lines are of the shards asked for."""
    monkeypatch.setattr(module, "MOST_LINES", 4)
    monkeypatch.setattr(module, "MOST_DROPPED", 4)
    timers = [make_timer(shard=number % 7, execute_at=NOW + number) for number in range(40)]
    await insert(redis, *timers)
    mine = [timer for timer in timers if timer.shard == 5]
    found = await redis.due({5}, None, NOW + 99, limit)
    assert [line.id for line in found] == [timer.id for timer in mine][:limit]
    assert all(await redis.apply([Change(timer, completed(timer)) for timer in timers]))
    assert await redis.purge({5}, NOW + 1, limit) == min(limit, len(mine))
    assert len(await redis.scan(None, 100)) == 40 - min(limit, len(mine))


async def test_heavy_answers_come_in_parts(redis, monkeypatch):
    """Those of an insert too, whose owners may be heavier than what is inserted."""
    timers = [make_timer() for _ in range(9)]
    await insert(redis, *timers)
    monkeypatch.setattr(module, "HEAVIEST", 1_000)
    again = [Insert(timer) for timer in timers]
    new = make_timer()
    assert await redis.insert([*again, Insert(new), *again]) == [*timers, None, *timers]
    assert await redis.get([timer.id for timer in (*timers, new)]) == [*timers, new]
    assert await redis.get_by_key([key_of(timer) for timer in timers]) == timers


@pytest.mark.parametrize("other", [{"prefix": "test_other"}, {"database": 1}])
async def test_two_stores_on_one_server(own, own_store, other):
    """Each prefix, and each number, is a database of its own."""
    beside = module.RedisStore(own_store._address._replace(**other))
    await beside.migrate()
    await insert(own_store, make_timer())
    assert await beside.scan(None, 10) == []
    await beside.close()


async def test_only_the_very_event_is_forgotten(redis):
    """What another one's id begins with is no id."""
    timer = make_timer()
    event = make_event(timer)
    await redis.insert([Insert(timer, (event,))])
    await redis.published(["", event.id[:20], f"{event.id}~"])
    assert await redis.events(ids.ALL_SHARDS, None, 9) == [event]
