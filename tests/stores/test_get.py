"""Reading timers by id and by key."""

import asyncio

import pytest
from msgspec import Raw
from msgspec.structs import replace

from duetime.stores import Insert
from duetime.timer import HttpCallback
from tests.factories import claim_of, insert, key_of, make_spec, make_timer

pytestmark = pytest.mark.promise("one-contract")


async def test_answers_come_in_the_order_asked(store):
    """Each id has its answer in its place, also if it is unknown or asked for twice."""
    first, second, unknown = make_timer(), make_timer(), make_timer()
    await insert(store, first, second)
    asked = [second.id, unknown.id, first.id, second.id, "no id at all"]
    assert await store.get(asked) == [second, None, first, second, None]


async def test_keys_are_answered_in_the_order_asked(store):
    """Each key has its answer in its place, also if it is unknown or asked for twice."""
    first, second, unknown = make_timer(), make_timer(), make_timer()
    await insert(store, first, second)
    asked = [key_of(timer) for timer in (second, unknown, first, second)]
    assert await store.get_by_key(asked) == [second, None, first, second]


async def test_nothing_asked_is_nothing_answered(store):
    """No ids and no keys have no answers."""
    assert await store.get([]) == []
    assert await store.get_by_key([]) == []


async def test_another_tenants_key_is_not_found(store):
    """The same group and timer_id of another tenant is another timer."""
    timer = make_timer(tenant="acme")
    await insert(store, timer)
    key = key_of(timer)
    assert await store.get_by_key([key._replace(tenant="other")]) == [None]
    assert await store.get_by_key([key._replace(group="other")]) == [None]


@pytest.mark.promise("tenants-apart")
@pytest.mark.parametrize("count", [1, 40])
async def test_a_tenant_reads_its_own(store, count):
    """What is another's is not there, whether it has a key or none, light or heavy."""
    payload = Raw(b'"%s"' % (b"x" * 50_000))
    heavy = make_spec(callback=HttpCallback(url="https://example.com", payload=payload))
    timers = []
    for tenant in ("acme", "rival"):
        timers += [make_timer(tenant=tenant) for _ in range(count)]
        keyless = [make_timer(tenant=tenant) for _ in range(count)]
        timers += [replace(timer, timer_id=timer.id) for timer in keyless]
        timers += [make_timer(tenant=tenant, spec=heavy), make_timer(tenant=tenant, spec=heavy)]
    await insert(store, *timers)
    asked = [timer.id for timer in timers]
    for tenant in ("acme", "rival", "nobody"):
        own = [timer if timer.tenant == tenant else None for timer in timers]
        assert await store.get(asked, tenant) == own
        assert [found for id_ in asked for found in await store.get([id_], tenant)] == own
    assert await store.get(asked) == timers


async def test_many_are_read_at_once(store):
    """Thousands of ids or keys are answered in one call."""
    timers = [make_timer() for _ in range(2_500)]
    await insert(store, *timers)
    assert await store.get([timer.id for timer in timers]) == timers
    assert await store.get_by_key([key_of(timer) for timer in timers]) == timers


async def test_an_acknowledged_write_is_read(store):
    """Whoever reads after a write was acknowledged sees it, under load too."""

    async def write_and_read(timer):
        await store.insert([Insert(timer)])
        assert await store.get([timer.id]) == [timer]
        change = claim_of(timer)
        assert await store.apply([change]) == [True]
        assert await store.get_by_key([key_of(timer)]) == [change.new]

    await asyncio.gather(*(write_and_read(make_timer()) for _ in range(50)))
