"""How many timers wait: counted now and then, and kept up with what the nodes tell each other."""

import asyncio

import pytest
from msgspec.structs import replace

from duetime.clock import sleep
from duetime.errors import StoreUnavailable, TooManyRequests, Unavailable
from duetime.tenancy.quotas import Quotas
from duetime.tenancy.waiting import COUNT_EVERY, LONGEST_COUNT, MOST_TOLD
from duetime.timer import Status
from tests.factories import completed, insert, make_timer
from tests.unit.meters import Cluster
from tests.waiting import settle

pytestmark = pytest.mark.promise("quotas-hold")


async def test_pending_is_counted_over_all_nodes():
    """What others let in is known with their next heartbeat; what ended makes room."""
    cluster = Cluster(2, pending=10)
    assert await cluster.admitted("n0", 6) == 6
    cluster.beat()
    assert await cluster.admitted("n1", 9) == 9  # its first count finds nothing in the store yet
    cluster.beat()
    assert await cluster.admitted("n0", 1) == 0


@pytest.mark.parametrize("nodes", [1, 2, 5])
async def test_a_burst_on_all_nodes_at_once(nodes):
    """Each lets in as many as are free, for one heartbeat: N times that in all, and no more."""
    cluster = Cluster(nodes, pending=20)
    await insert(cluster.store, *(make_timer() for _ in range(5)))
    asked = [cluster.admitted(name, 1) for _ in range(150) for name in cluster.meters]
    assert sum(await asyncio.gather(*asked)) == nodes * 15
    cluster.beat()
    asked = [cluster.admitted(name, 1) for _ in range(150) for name in cluster.meters]
    assert sum(await asyncio.gather(*asked)) == 0


async def test_a_burst_into_a_group_does_not_run_over_its_tenant():
    """What is free in the tenant may be taken while the group is counted."""
    cluster = Cluster(1)
    [meter] = cluster.meters.values()
    meter._rules.limited = {"default": Quotas(pending=10), "default/g": Quotas(pending=5)}
    grouped = [make_timer(group="g") for _ in range(5)]
    await insert(cluster.store, *grouped, *(make_timer() for _ in range(4)))
    await meter.step()
    await cluster.store.remove(grouped)
    await insert(cluster.store, *(make_timer() for _ in range(5)))
    cluster.clock.advance(1_000)
    asked = [meter.admit(make_timer(group="g")) for _ in range(20)]
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert answers.count(None) == 1


async def test_what_is_told_is_added_to_what_was_counted():
    """From the count on, and not what went before it."""
    cluster = Cluster(2, pending=10)
    await insert(cluster.store, *(make_timer() for _ in range(4)))
    assert await cluster.admitted("n0", 3) == 3
    assert await cluster.admitted("n1", 2) == 2
    cluster.beat()
    assert await cluster.admitted("n0", 9) == 1  # 4 were there, 3 and 2 came
    done = completed(make_timer())
    cluster.meters["n1"].ended(done)
    cluster.beat()
    assert await cluster.admitted("n0", 9) == 1


async def test_a_refusal_is_no_older_than_a_moment():
    """It is counted before it is refused, if counting is cheap enough for that."""
    cluster = Cluster(1, pending=1)
    timer = make_timer()
    await insert(cluster.store, timer)
    assert await cluster.admitted("n0", 1) == 0
    await cluster.store.remove([timer])
    assert await cluster.admitted("n0", 1) == 0
    cluster.clock.advance(1_000)
    assert await cluster.admitted("n0", 1) == 1


async def test_refusals_do_not_ask_the_store_each_time():
    """A tenant at its limit costs the store nothing."""
    cluster = Cluster(1, pending=0, creates_per_second=1)
    await cluster.admitted("n0", 1)
    cluster.store.calls.clear()
    assert await cluster.admitted("n0", 1_000) == 0
    assert cluster.store.calls == []


async def test_counting_goes_on_by_itself_and_not_too_often():
    """What drifts apart is put right; a slow count has long rests."""
    cluster = Cluster(1, pending=5)
    [meter] = cluster.meters.values()
    assert await meter.step() == COUNT_EVERY
    assert cluster.store.calls == ["count"]
    await meter.step()
    assert cluster.store.calls == ["count"]
    cluster.clock.advance(10_000)
    real, took = cluster.store.store.count, 3_000

    async def slow(tenant):
        cluster.clock.advance(took)
        return await real(tenant)

    cluster.store.store.count = slow
    await meter.step()
    for _ in range(14):
        cluster.clock.advance(10_000)
        await meter.step()
    assert cluster.store.calls == ["count"] * 2
    cluster.clock.advance(10_000)
    await meter.step()
    assert cluster.store.calls == ["count"] * 3


async def test_many_that_want_to_know_share_a_count():
    """A tenant at its limit under full load has its timers counted once, not once a request."""
    cluster = Cluster(1, pending=0)
    [meter] = cluster.meters.values()
    gate, real = asyncio.Event(), cluster.store.store.count

    async def slow(tenant):
        await gate.wait()
        return await real(tenant)

    cluster.store.store.count = slow
    asked = [asyncio.create_task(cluster.admitted("n0", 1)) for _ in range(200)]
    asked += [asyncio.create_task(meter.tally("default")) for _ in range(20)]
    await settle()
    gate.set()
    await asyncio.gather(*asked)
    assert cluster.store.calls == ["count"]


async def test_a_count_that_fails_is_no_failure_of_nobody_knows_what():
    """Nothing was written, so it is said so."""
    cluster = Cluster(1, pending=1)
    cluster.store.failing = "before"
    with pytest.raises(Unavailable):
        await cluster.meters["n0"].admit(make_timer())
    cluster.store.failing = None
    assert await cluster.admitted("n0", 2) == 1


@pytest.mark.promise("bounded-memory")
async def test_heartbeats_stay_small_whatever_quotas_there_are():
    """Of very many, those are told that are busiest, or nearest to their limits."""
    cluster = Cluster(2)
    first, second = cluster.meters.values()
    names = [f"default/g{number}" for number in range(MOST_TOLD * 3)]
    for meter in (first, second):
        meter._rules.limited = dict.fromkeys(names, Quotas(pending=1_000, creates_per_second=1e6))
    await second.step()
    for number, name in enumerate(names):
        for _ in range(1 + number % 3):
            timer = make_timer(group=name.partition("/")[2])
            await first.admit(timer)
            first.made(timer)
    cluster.clock.advance(1_000)
    assert len(first.demand()) == len(first.growth()) == MOST_TOLD
    assert set(first.growth().values()) == {3}
    cluster.beat()
    full = next(iter(first.growth()))
    assert cluster.believed("n1", full) == 3
    untold = next(name for name in names if name not in first.growth())
    assert cluster.believed("n1", untold) == 0


async def test_what_is_told_for_the_first_time_may_be_old():
    """Of a name that others were nearer to their limits than, only what comes now is added."""
    cluster = Cluster(2)
    first, second = cluster.meters.values()
    names = [f"default/g{number}" for number in range(MOST_TOLD * 2)]
    for meter in (first, second):
        meter._rules.limited = dict.fromkeys(names, Quotas(pending=1_000))
    for name in names:
        first._waiting.grow(name, 900, 0.0)
    cluster.beat()
    await first.step()
    await second.step()
    untold = next(name for name in names if name not in first.growth())
    first._waiting.grow(untold, 5, 0.0)
    cluster.beat()
    assert cluster.believed("n1", untold) == 0
    first._waiting.grow(untold, 7, 0.0)
    cluster.beat()
    assert cluster.believed("n1", untold) == 7


@pytest.mark.parametrize("grown", [1_000, -1_000])
async def test_a_newcomer_does_not_add_what_went_before_it(grown):
    """It counts before it has heard of anybody, and others have been there for long."""
    cluster = Cluster(1, pending=100)
    await insert(cluster.store, *(make_timer() for _ in range(90)))
    cluster.meters["n0"]._waiting.grow("default", grown, 0.0)
    await cluster.add("n1", pending=100).step()
    cluster.beat()
    assert cluster.believed("n1") == 90
    assert await cluster.admitted("n0", 4) == 4
    cluster.beat()
    assert cluster.believed("n1") == 94


async def test_who_comes_while_it_is_counted_adds_what_it_lets_in():
    """Also if it had nothing to tell at first."""
    cluster = Cluster(1, pending=100)
    gate, real = asyncio.Event(), cluster.store.store.count

    async def slow(tenant):
        await gate.wait()
        return await real(tenant)

    cluster.store.store.count = slow
    counting = asyncio.create_task(cluster.meters["n0"].step())
    await settle()
    cluster.add("n1", pending=100)
    cluster.beat()
    gate.set()
    await counting
    assert await cluster.admitted("n1", 30) == 30
    cluster.beat()
    assert cluster.believed("n0") == 30


async def test_what_a_node_let_in_stays_when_it_leaves():
    """Until it is counted anew, by which time it is in the count."""
    cluster = Cluster(2, pending=100)
    staying, leaving = cluster.meters.values()
    await staying.step()
    made = [make_timer() for _ in range(80)]
    for timer in made:
        await leaving.admit(timer)
        leaving.made(timer)
    cluster.beat()
    staying.hear({})
    assert cluster.believed("n0") == 80
    await insert(cluster.store, *made)
    cluster.clock.advance(10_000)
    await staying.step()
    assert cluster.believed("n0") == 80
    assert staying._waiting._told == {}


async def test_what_is_made_while_others_have_it_counted_is_not_missed():
    """Who joins a count that is under way adds what came since that began."""
    cluster = Cluster(1, pending=100)
    [meter] = cluster.meters.values()
    await meter.step()
    cluster.clock.advance(10_000)
    gate, real = asyncio.Event(), cluster.store.store.count

    async def slow(tenant):
        counts = await real(tenant)
        await gate.wait()
        return counts

    cluster.store.store.count = slow
    asked = asyncio.create_task(meter.tally("default"))
    await settle()
    assert await cluster.admitted("n0", 80) == 80
    counting = asyncio.create_task(meter.step())
    await settle()
    gate.set()
    await asyncio.gather(asked, counting)
    assert cluster.believed("n0") == 80


async def test_what_is_not_made_after_all_is_not_missed_by_a_count():
    """Places are not growth: timers that were there already were never told of, nor taken off."""
    cluster = Cluster(1, pending=100)
    [meter] = cluster.meters.values()
    await insert(cluster.store, *(make_timer() for _ in range(50)))
    repeated = [make_timer() for _ in range(40)]
    for timer in repeated:
        await meter.admit(timer)
    assert cluster.believed("n0") == 90
    cluster.clock.advance(10_000)
    await meter.step()
    assert cluster.believed("n0") == 90
    meter.withdraw(*repeated)
    assert cluster.believed("n0") == 50


async def test_what_ends_as_it_is_counted_is_taken_off_once():
    """By the count, and not again when it is noted; what ends after that makes room at once."""
    cluster = Cluster(1, pending=100)
    [meter] = cluster.meters.values()
    timers = [make_timer() for _ in range(100)]
    await insert(cluster.store, *timers[10:])  # ten have ended, and nobody knows that yet
    began_at = cluster.clock.monotonic()
    cluster.clock.advance(500)
    await meter.step()
    for timer in timers[:10]:
        meter.changed(timer, replace(timer, status=Status.CANCELED), began_at)
    assert cluster.believed("n0") == 90
    meter.ended(completed(timers[10]))  # when that was written, nobody says
    assert cluster.believed("n0") == 90
    cluster.clock.advance(1_001)
    meter.ended(completed(timers[11]))
    assert cluster.believed("n0") == 89
    now = cluster.clock.monotonic()
    meter.changed(timers[12], replace(timers[12], status=Status.CANCELED), now)
    assert cluster.believed("n0") == 88


async def test_what_ends_while_it_is_counted():
    """It may be in the count or not: it is taken off with the next one."""
    cluster = Cluster(1, pending=10)
    [meter] = cluster.meters.values()
    timers = [make_timer() for _ in range(5)]
    await insert(cluster.store, *timers)
    real = cluster.store.store.count

    async def meanwhile(tenant):
        await cluster.store.remove(timers[:2])
        for timer in timers[:2]:
            meter.changed(timer, replace(timer, status=Status.CANCELED), cluster.clock.monotonic())
        return await real(tenant)

    cluster.store.store.count = meanwhile
    await meter.step()
    assert cluster.believed("n0") == 3


async def test_who_had_no_place_gives_none_back():
    """Timers that were on their way when the limit was set leave those alone that came after."""
    cluster = Cluster(1)
    [meter] = cluster.meters.values()
    meter._rules.limited = {"default": Quotas(payload_bytes=100_000)}
    before = [make_timer() for _ in range(5)]
    for timer in before:
        await meter.admit(timer)
    meter._rules.limited = {"default": Quotas(pending=5)}
    for _ in range(5):
        await meter.admit(make_timer())
    meter.withdraw(*before)
    with pytest.raises(TooManyRequests):
        await meter.admit(make_timer())


async def test_a_place_is_given_back_once():
    """Also if its limit came or went while the timer was written."""
    cluster = Cluster(1, pending=5)
    [meter] = cluster.meters.values()
    timers = [make_timer() for _ in range(2)]
    await meter.admit(timers[0])
    limited, meter._rules.limited = meter._rules.limited, {}
    await meter.admit(timers[1])
    meter.withdraw(timers[0])
    meter._rules.limited = limited
    meter.made(timers[1])
    assert (meter._waiting._places, meter._waiting._taken) == ({}, {})


async def test_before_it_is_counted_nobody_is_let_in():
    """A count that fails is told to all who wait for it, and not only to who began it."""
    cluster = Cluster(1, pending=1)
    [meter] = cluster.meters.values()
    gate = asyncio.Event()

    async def failing(tenant):
        await gate.wait()
        raise StoreUnavailable("no")

    cluster.store.store.count = failing
    asked = [asyncio.create_task(meter.admit(make_timer())) for _ in range(50)]
    await settle()
    gate.set()
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert {type(each) for each in answers} == {Unavailable}


async def test_a_slow_count():
    """Whoever waits for it too long is told so, it goes on, and how long it took is known."""
    cluster = Cluster(1, pending=6)
    [meter] = cluster.meters.values()
    await insert(cluster.store, *(make_timer() for _ in range(5)))
    real, took = cluster.store.store.count, LONGEST_COUNT + 25

    async def slow(tenant):
        await sleep(cluster.clock, took)
        return await real(tenant)

    cluster.store.store.count = slow
    asked = asyncio.create_task(meter.admit(make_timer()))
    await settle()
    cluster.clock.advance(round(LONGEST_COUNT * 1000))
    with pytest.raises(Unavailable, match="within 20 s"):
        await asked
    cluster.clock.advance(25_000)
    await settle()
    assert meter._waiting._counted["default"].took == took
    assert await cluster.admitted("n0", 3) == 1
    assert cluster.store.calls == ["insert", "count"]


@pytest.mark.parametrize("failure", [StoreUnavailable("no"), ValueError("an unreadable row")])
async def test_a_refusal_without_a_newer_count(failure):
    """If it cannot be counted anew, what was known before decides."""
    cluster = Cluster(1, pending=1)
    await insert(cluster.store, make_timer())
    assert await cluster.admitted("n0", 1) == 0
    cluster.clock.advance(1_000)

    async def failing(tenant):
        raise failure

    cluster.store.store.count = failing
    with pytest.raises(TooManyRequests):
        await cluster.meters["n0"].admit(make_timer())


async def test_who_asks_again_and_again_is_told_the_same():
    """For twenty times as long as it took to count: so nobody keeps the store busy by asking."""
    cluster = Cluster(1)
    [meter] = cluster.meters.values()
    real = cluster.store.store.count

    async def slow(tenant):
        cluster.clock.advance(500)
        return await real(tenant)

    cluster.store.store.count = slow
    tally = await meter.tally("default")
    await insert(cluster.store, make_timer())
    cluster.clock.advance(9_999)
    assert await meter.tally("default") == tally
    cluster.clock.advance(1)
    assert (await meter.tally("default")).groups == {"default": {"pending": 1}}
    assert cluster.store.calls == ["count", "insert", "count"]
    cluster.clock.advance(10_000)
    await meter.step()
    assert meter._waiting._tallies == {}


async def test_a_new_limit_does_not_begin_with_an_old_count():
    """What was counted while there was none is not kept."""
    cluster = Cluster(1, creates_per_second=1_000)
    [meter] = cluster.meters.values()
    await meter.tally("default")
    await insert(cluster.store, *(make_timer() for _ in range(50)))
    meter._rules.limited = {"default": Quotas(pending=10)}
    assert await cluster.admitted("n0", 20) == 0
