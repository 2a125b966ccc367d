"""Every timer there is, a part at a time."""

import pytest
from msgspec import Raw

from duetime.timer import HttpCallback, Status
from tests.factories import NOW, completed, insert, make_spec, make_timer
from tests.stores.conftest import scanned

pytestmark = pytest.mark.promise("one-contract")


def by_id(timers):
    return sorted(timers, key=lambda timer: timer.id)


async def test_everything_is_found_once(store):
    """Of all tenants and groups and in whatever status, just as it is stored."""
    timers = [make_timer(tenant=f"tenant-{n % 3}", group=f"group-{n % 5}") for n in range(40)]
    timers += [completed(make_timer(), NOW + n) for n in range(10)]
    timers += [make_timer(status=Status.PAUSED, wake_at=None), make_timer(version=99)]
    await insert(store, *timers)
    for limit in (1, 7, 1_000):
        assert by_id(await scanned(store, limit)) == by_id(timers)


async def test_nothing_is_an_empty_answer(store):
    """An empty store is at its end at once."""
    assert await store.scan(None, 10) == []


async def test_the_order_never_changes(store):
    """Whoever goes on behind a timer finds what came after it the first time."""
    timers = [make_timer(created_at=NOW + n // 4) for n in range(30)]
    await insert(store, *timers)
    first = await scanned(store, 4)
    for place, timer in enumerate(first):
        assert await scanned(store, 9, timer.id) == first[place + 1 :]


async def test_it_goes_on_behind_a_timer_that_is_gone(store):
    """The place stays, whatever became of who stood there."""
    timers = [make_timer() for _ in range(12)]
    await insert(store, *timers)
    order = await scanned(store, 100)
    gone = make_timer()
    await insert(store, completed(gone))
    with_gone = [timer.id for timer in await scanned(store, 100)]
    behind = with_gone[with_gone.index(gone.id) + 1 :]
    assert await store.purge([gone.shard], NOW + 1, 10) == 1
    assert [timer.id for timer in await scanned(store, 5, gone.id)] == behind
    assert await scanned(store, 100) == order


async def test_new_ones_disturb_nothing(store):
    """What was there at the beginning is found once, also while others are stored."""
    timers = [make_timer() for _ in range(30)]
    await insert(store, *timers)
    found = []
    while part := await store.scan(found[-1].id if found else None, 4):
        found += part
        if len(found) < 30:
            await insert(store, make_timer(), make_timer(created_at=NOW - 5))
    ids = [timer.id for timer in found]
    assert len(set(ids)) == len(ids)
    assert {timer.id for timer in timers} <= set(ids)


async def test_heavy_timers_come_in_several_answers(store):
    """Each has at least one, and none is left out; only what is in memory anyway is whole."""
    payload = Raw(b'"' + b"x" * 7_000_000 + b'"')
    spec = make_spec(callback=HttpCallback(url="https://example.com", payload=payload))
    timers = [make_timer(spec=spec) for _ in range(4)] + [make_timer()]
    await insert(store, *timers)
    assert len(await store.scan(None, 100)) < 5 or store.traits.engine == "memory"
    assert by_id(await scanned(store, 100)) == by_id(timers)
