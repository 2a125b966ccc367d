"""Fairness between tenants: who has thousands of timers due does not delay another's ten."""

import asyncio

import msgspec
import pytest

from duetime.engine import column, turned_away
from duetime.engine.agenda import Agenda
from duetime.engine.column import Column
from duetime.requests import CreateTimer
from duetime.stores import Insert
from duetime.stores.memory import MemoryStore
from duetime.tenancy.caller import Caller
from duetime.testing import FlakyStore
from duetime.timer import Kind, Status
from tests.engine.conftest import Node
from tests.engine.crowds import make_targets
from tests.engine.limits import make_tenant, to
from tests.factories import NOW, make_timer

pytestmark = pytest.mark.promise("tenants-in-turn")

MANY = 3_000


async def create(node, caller, **fields):
    body = {"delay": "0s", "callback": {"type": "http", "url": "https://a.example/"}} | fields
    timer, _ = await node.service.create(caller, msgspec.convert(body, CreateTimer))
    return timer


@pytest.fixture
async def tenants(node):
    return [await make_tenant(node, name) for name in ("busy", "quiet")]


async def turns_until_sent(node, timers, most):
    """How many turns of its parts a node takes until it has sent these."""
    wanted = {timer.id for timer in timers}
    for number in range(1, most + 1):
        await node.turn()
        if wanted <= {id_ for id_, _ in node.sent}:
            return number
    return None


async def test_ten_start_at_once_beside_thousands_that_are_due(node, clock, tenants):
    """Made later, due later, and to the same receiver: they wait for no pass but their own."""
    busy, quiet = tenants
    for _ in range(MANY):
        await create(node, busy, delay="1s")
    clock.advance(1_000)
    for _ in range(3):
        await node.turn()
    assert len(node.sent) < MANY // 2
    ten = [await create(node, quiet) for _ in range(10)]
    assert await turns_until_sent(node, ten, 10) <= 3


async def test_ten_that_fall_due_together_with_thousands(node, clock, tenants):
    """They were made last, so they come last in every order of time."""
    busy, quiet = tenants
    for _ in range(MANY):
        await create(node, busy, delay="3s")
    ten = [await create(node, quiet, delay="3s") for _ in range(10)]
    clock.advance(3_000)
    assert await turns_until_sent(node, ten, 10) <= 3
    assert len(node.sent) < MANY // 2


@pytest.fixture
def cramped(monkeypatch):
    monkeypatch.setattr(column, "CAPACITY", 1_000)


async def stored(clock, count):
    """A node that finds timers of one tenant in its store, all of them late, and ten of another."""
    memory = MemoryStore()
    node = Node(FlakyStore(memory), clock, max_in_flight=50, target_concurrency=10)
    for name in ("busy", "quiet"):
        await make_tenant(node, name)
    many = [make_timer(tenant="busy", execute_at=clock.now() - 60_000) for _ in range(count)]
    ten = [make_timer(tenant="quiet", execute_at=clock.now() - 50_000) for _ in range(10)]
    await memory.insert([Insert(timer) for timer in (*many, *ten)])
    node.engine.reader._page = 100
    return node, many, ten


async def test_ten_are_found_behind_thousands_that_do_not_fit_in(clock, cramped):
    """The reader goes on past what one tenant has too much of, page by page."""
    node, _, ten = await stored(clock, MANY)
    turns = await turns_until_sent(node, ten, 200)
    assert turns <= MANY // 100 + 8
    assert len(node.sent) < MANY // 2


async def test_what_did_not_fit_in_is_started_in_its_time(clock, cramped):
    """All of it, once each, and read about twice: when it was found, and when it had room."""
    node, many, ten = await stored(clock, 2_000)
    for _ in range(400):
        await node.turn()
        clock.advance(10)
    assert sorted(node.sent) == sorted((timer.id, 1) for timer in (*many, *ten))
    assert len(node.engine.agenda._away) == 0
    reads = node.store.calls.count("get")
    assert reads < 3 * (2_000 // 100) + 20


async def test_what_is_not_even_remembered_is_started_too(clock, cramped, monkeypatch):
    """Beyond what fits into memory, the store is read again."""
    monkeypatch.setattr(turned_away, "MOST_AWAY", 100)
    node, many, ten = await stored(clock, 2_000)
    for _ in range(500):
        await node.turn()
        clock.advance(100)
    assert sorted(node.sent) == sorted((timer.id, 1) for timer in (*many, *ten))


async def test_those_that_were_canceled_meanwhile_hold_up_nobody(clock, cramped):
    """Whoever was to come again and never will keeps no place for it."""
    node, many, _ = await stored(clock, 2_000)
    for _ in range(25):
        await node.turn()
    for timer in many:
        stored_one = (await node.store.get([timer.id]))[0]
        if stored_one.status is Status.PENDING and int(timer.timer_id.split("-")[1]) % 3:
            await node.service.cancel(Caller("busy"), timer.id)
    for _ in range(400):
        clock.advance(100)
        await node.turn()
    left = [timer for timer in await node.store.get([t.id for t in many]) if timer.wake_at]
    assert left == []


async def test_ten_are_noticed_beside_thousands_that_come_up(node, clock, tenants, cramped):
    """What is made for a tenant with too many is remembered; what is made for others fits in."""
    busy, quiet = tenants
    for _ in range(1_500):
        await create(node, busy, delay="3s")
    ten = [await create(node, quiet, delay="3s") for _ in range(10)]
    assert len(node.engine.agenda) == 510
    clock.advance(3_000)
    assert await turns_until_sent(node, ten, 10) <= 3
    for _ in range(100):
        await node.turn()
        clock.advance(10)
    assert len(node.sent) == 1_510


@pytest.mark.parametrize("full", ["what comes up", "what is late"])
def test_a_full_column_does_not_hold_up_what_did_not_fit_into_the_other(cramped, full):
    """A tenant with always much to come is not late for ever with what it had to put off."""
    agenda = Agenda(lambda: True)
    times = [NOW, NOW - 60_000] if full == "what comes up" else [NOW - 60_000, NOW]
    for _ in range(column.CAPACITY // 2):
        assert agenda.put(make_timer(wake_at=times[0]), NOW)
    while agenda.leaves_room(timer := make_timer(wake_at=times[1]), NOW):
        agenda.put(timer, NOW)
    agenda.call_back()
    assert agenda.recalled() == []
    agenda.drop(lambda timer: timer.wake_at == times[1])
    agenda.call_back()
    assert [line.id for line in agenda.recalled()] == [timer.id]


async def test_a_tenant_whose_receivers_hang_leaves_places_to_others(clock):
    """However many receivers it has, and whatever they have earned before."""
    node = Node(FlakyStore(MemoryStore()), clock, max_in_flight=100)
    busy, quiet = [await make_tenant(node, name) for name in ("busy", "quiet")]
    node.sender.hold = asyncio.Event()
    for number in range(300):
        await create(node, busy, callback=to(number))
    for _ in range(10):
        await node.turn()
    assert node.engine.targets.under_way == 80
    ten = [await create(node, quiet, callback=to(1_000 + number)) for number in range(10)]
    await node.turn()
    assert {timer.id for timer in ten} <= {id_ for id_, _ in node.sent}
    node.sender.hold.set()
    for _ in range(20):
        await node.turn()
    assert len(node.sent) == 310


async def test_a_node_with_one_tenant_uses_all_its_places(clock):
    """Nothing is kept for others where there are none."""
    node = Node(FlakyStore(MemoryStore()), clock, max_in_flight=100)
    node.sender.hold = asyncio.Event()
    for number in range(300):
        await node.create(callback=to(number))
    for _ in range(10):
        await node.turn()
    assert node.engine.targets.under_way == 100


def test_tenants_then_groups_then_receivers_take_turns():
    """Who has more groups, or more receivers, gets no more turns for it."""
    targets = make_targets(per_target=100, total=1_000)
    lanes = [("busy", f"g{group}", f"r{receiver}") for group in range(3) for receiver in range(4)]
    lanes += [("quiet", "g0", "r0")]
    for tenant, group, receiver in lanes:
        for _ in range(40):
            targets.begin(f"{tenant} {receiver}", make_timer(tenant=tenant, group=group))
    for tenant, receiver in {(tenant, receiver) for tenant, _, receiver in lanes}:
        targets._targets[f"{tenant} {receiver}"].places = 100
        targets.end(f"{tenant} {receiver}", [make_timer(tenant=tenant, group="g0")], Kind.OK)
    begun = targets.next_waiting(24)
    of = [timer.tenant for _, timer in begun]
    assert of.count("quiet") == 12
    groups = [timer.group for _, timer in begun if timer.tenant == "busy"]
    assert sorted(map(groups.count, set(groups))) == [4, 4, 4]


def test_a_column_gives_every_tenant_its_share():
    """Of a batch, half is for the one who has two timers due, and what he leaves for the other."""
    versions = {}
    due = Column(versions)
    timers = [make_timer(tenant="busy") for _ in range(100)]
    timers += [make_timer(tenant="quiet") for _ in range(2)]
    for number, timer in enumerate(timers):
        versions[timer.id] = timer.version
        due.push(NOW - 1_000 + number, number, timer)
    taken = due.take(NOW, 10)
    assert [timer.tenant for timer in taken].count("quiet") == 2
    assert len(taken) == 10
    assert [timer.id for timer in taken if timer.tenant == "busy"] == [t.id for t in timers[:8]]


def test_small_batches_go_round():
    """With room for one at a time, three tenants are served one after the other."""
    versions = {}
    due = Column(versions)
    for number in range(30):
        timer = make_timer(tenant=f"t{number % 3}")
        versions[timer.id] = timer.version
        due.push(NOW - 1_000 + number * (number % 3 + 1), number, timer)
    taken = [due.take(NOW, 1)[0].tenant for _ in range(9)]
    assert all(len(set(taken[start : start + 3])) == 3 for start in range(0, 9, 3))
