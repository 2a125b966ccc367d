"""Who works on an action: its own node, and another one once that has left it."""

import asyncio

import pytest

from duetime import ids
from duetime.bulk.clerk import LOOK_EVERY, SHORTEST_BREATH
from duetime.engine.loop import Loop, Trouble
from duetime.errors import Conflict, NotFound
from duetime.stores import Record
from duetime.tenancy.caller import OPERATOR, Caller
from duetime.tenancy.requests import CreateKey, PutGroup, RotateKey
from duetime.tenancy.role import Role
from duetime.testing import FakeClock
from duetime.timer import Status
from tests.api.gated import GatedStore
from tests.bulk.desk import Crash, CrashingStore, Desk, counts, put_timers, stored, under_way

HOUR = 3_600_000
LATER = 1_750_000_000_000 + 24 * HOUR


@pytest.fixture
def other(store, clock: FakeClock) -> Desk:
    """Another node."""
    return Desk(store, clock)


async def test_a_node_that_works_keeps_its_action(desk: Desk, other: Desk, clock: FakeClock):
    """However long it takes, nobody else takes it up as long as its record moves."""
    await put_timers(desk.store, 60)
    await desk.ask("cancel")
    for _ in range(10):
        await desk.step()
        clock.advance(3_000)
        await other.step()
        assert [each.node for each in await under_way(desk.store)] == [desk.name]


async def test_takeover(desk: Desk, other: Desk, clock: FakeClock):
    """An action whose record stood still for ten seconds is taken up, and not before."""
    await put_timers(desk.store, 20)
    action = await desk.ask("cancel")
    await desk.step()
    await other.step()
    for seconds in (3, 6, 9):
        clock.advance(3_000)
        await other.step()
        assert [each.node for each in await under_way(desk.store)] == [desk.name], seconds
    clock.advance(3_000)
    await other.step()
    assert [each.node for each in await under_way(desk.store)] == [other.name]
    await other.work()
    assert counts(await other.see(action)) == (20, 20, 0, 0)


async def test_a_look_after_an_outage_proves_nothing(desk: Desk, other: Desk, clock: FakeClock):
    """While nobody could look, nobody could write: that time does not count."""
    await put_timers(desk.store, 20)
    await desk.ask("cancel")
    await desk.step()
    await other.step()
    clock.advance(60_000)
    await other.step()
    assert [each.node for each in await under_way(desk.store)] == [desk.name]


async def test_two_at_once(store, clock: FakeClock):
    """A node that was away in the middle of a write, and comes back, changes and counts nothing."""
    made = await put_timers(store, 10, execute_at=LATER)
    gated = GatedStore(store, "apply")
    slow, other = Desk(gated, clock), Desk(store, clock)
    action = await slow.ask("shift", by="1h")
    working = asyncio.create_task(slow.work())
    await gated.begun.acquire()  # it is about to write
    await other.take_over()
    assert counts(await other.see(action)) == (10, 10, 0, 0)
    gated.gate.set()
    await working
    assert counts(await other.see(action)) == (10, 10, 0, 0)
    found = await stored(store, made)
    assert {(timer.execute_at, timer.version) for timer in found} == {(LATER + HOUR, 2)}


@pytest.mark.parametrize(
    ("first", "second"),
    [({"verb": "shift", "by": "1h"},) * 2, ({"verb": "pause"}, {"verb": "resume"})],
)
@pytest.mark.parametrize("call", ["get", "apply"])
async def test_two_at_once_and_another_action_after_them(store, clock, first, second, call):
    """Nor does it change what the next action has changed since, though that looks untouched."""
    made = await put_timers(store, 10, execute_at=LATER)
    gated = GatedStore(store, call)
    slow, other = Desk(gated, clock), Desk(store, clock)
    if call == "get":  # the batch of a node that has died over it is read first
        dying = Desk(CrashingStore(store, 5, "before"), clock)
        await dying.ask(**first)
        with pytest.raises(Crash, match="apply"):
            await dying.work()
        await slow.watch(9)
        working = asyncio.create_task(slow.watch(6))
    else:
        await slow.ask(**first)
        working = asyncio.create_task(slow.work())
    await gated.begun.acquire()
    await other.take_over()
    await other.ask(**second)
    await other.work()
    before = await stored(store, made)
    assert {timer.version for timer in before} == {3}
    gated.gate.set()
    await working
    assert await stored(store, made) == before


async def test_two_that_take_turns(desk: Desk, other: Desk):
    """Two who both believe that an action is theirs stop whenever they lose it."""
    made = await put_timers(desk.store, 30, execute_at=LATER)
    other.service.actions._clerk.name = desk.name
    action = await desk.ask("shift", by="1h")
    while await under_way(desk.store):
        await desk.step()
        await other.step()
        other.service.actions._clerk.look_soon()
    assert counts(await desk.see(action)) == (30, 30, 0, 0)
    assert {timer.version for timer in await stored(desk.store, made)} == {2}


async def test_a_small_one_beside_a_big_one(desk: Desk):
    """One batch of each in turn: a small action ends long before a big one."""
    await put_timers(desk.store, 100)
    big = await desk.ask("pause")
    for _ in range(3):
        await desk.step()
    small = await desk.ask("cancel", {"created_before": "2025-06-04T01:20:00.005Z"})
    for _ in range(4):
        await desk.step()
    assert (await desk.see(small)).state == "done"
    assert counts(await desk.see(small)) == (5, 5, 0, 0)
    assert (await desk.see(big)).state == "running"


async def test_cancel_in_the_middle(desk: Desk, other: Desk):
    """What is done stays done and is counted; the rest is left alone, whoever asked."""
    made = await put_timers(desk.store, 30)
    action = await desk.ask("cancel")
    for _ in range(3):
        await desk.step()
    canceling = await other.service.actions.cancel(OPERATOR, action.id)
    assert canceling.is_canceling
    await desk.work()
    done = await desk.see(action)
    changed = [t for t in await stored(desk.store, made) if t.status is Status.CANCELED]
    assert done.state == "canceled"
    assert 0 < len(changed) < 30
    assert counts(done) == (len(changed), len(changed), 0, 0)
    assert await other.service.actions.cancel(OPERATOR, action.id) == done  # once more: the same


@pytest.mark.parametrize("is_taken_up", [False, True])
async def test_a_key_that_is_revoked_in_the_middle(desk: Desk, other: Desk, is_taken_up):
    """What it asked for ends there, on any node; what is done is counted, the rest left alone."""
    keys = desk.service.keys
    key, _ = await keys.create(OPERATOR, "default", CreateKey(name="k", role=Role.WRITE))
    made = await put_timers(desk.store, 30)
    action = await desk.ask("cancel", caller=Caller("default", Role.WRITE, "k", key.id))
    for _ in range(3):
        await desk.step()
    await other.service.keys.revoke(OPERATOR, "default", key.id)
    await desk.service.rules.look()
    await (other.take_over() if is_taken_up else desk.work())
    ended = await desk.see(action)
    changed = [t for t in await stored(desk.store, made) if t.status is Status.CANCELED]
    assert (ended.state, ended.error) == ("failed", "the key that asked for it was revoked")
    assert 0 < len(changed) < 30
    assert ended.tally.changed == len(changed)
    assert await under_way(desk.store) == []


async def test_a_key_that_ends_or_is_not_known_yet(desk: Desk, other: Desk, clock: FakeClock):
    """It was good when it asked: so it is done, also by a node that has not heard of it."""
    body = CreateKey(name="k", role=Role.WRITE, expires_in="5s")
    await other.step()
    key, _ = await desk.service.keys.create(OPERATOR, "default", body)
    await put_timers(desk.store, 30)
    action = await desk.ask("cancel", caller=Caller("default", Role.WRITE, "k", key.id))
    clock.advance(6_000)
    await other.take_over()
    assert counts(await desk.see(action)) == (30, 30, 0, 0)


@pytest.mark.parametrize("is_rotated", [False, True])
async def test_a_key_that_has_ended_and_is_forgotten(desk: Desk, clock, monkeypatch, is_rotated):
    """Of keys that have ended only so many are kept: what it asked for is done all the same."""
    monkeypatch.setattr("duetime.tenancy.api_keys.MOST_ENDED", 1)
    keys = desk.service.keys
    body = CreateKey(name="k", role=Role.WRITE, expires_in=None if is_rotated else "1s")
    key, _ = await keys.create(OPERATOR, "default", body)
    await put_timers(desk.store, 30)
    action = await desk.ask("cancel", caller=Caller("default", Role.WRITE, "k", key.id))
    await desk.step()
    if is_rotated:
        await keys.rotate(OPERATOR, "default", key.id, RotateKey(valid_for="1s"))
        await desk.step()
    later = CreateKey(name="later", role=Role.WRITE, expires_in="2s")
    await keys.create(OPERATOR, "default", later)
    clock.advance(3_000)
    await keys.create(OPERATOR, "default", CreateKey(name="new", role=Role.WRITE))
    assert desk.service.rules.keys.find(key.id) is None
    await desk.work()
    assert counts(await desk.see(action)) == (30, 30, 0, 0)


async def test_cancel_when_its_node_is_gone(desk: Desk, other: Desk):
    """Whoever takes it up ends it after the batch that was open."""
    await put_timers(desk.store, 30)
    action = await desk.ask("cancel")
    for _ in range(3):
        await desk.step()
    await other.service.actions.cancel(OPERATOR, action.id)
    await other.take_over()
    assert (await other.see(action)).state == "canceled"
    assert await under_way(desk.store) == []


async def test_what_has_ended_cannot_be_canceled(desk: Desk):
    """It is refused, with the state."""
    action = await desk.ask("cancel")
    await desk.work()
    with pytest.raises(Conflict, match="it has ended: done"):
        await desk.service.actions.cancel(OPERATOR, action.id)
    with pytest.raises(NotFound):
        await desk.service.actions.cancel(Caller("another"), action.id)


async def test_a_node_that_is_to_stop_does_so_between_two_turns(store, clock: FakeClock):
    """However many actions are under way, it waits for one batch at most."""
    await put_timers(store, 10)
    gated = GatedStore(store, "search")
    desk = Desk(gated, clock)
    for _ in range(5):
        await desk.ask("pause", dry_run=True)
    loop = Loop("actions", clock, Trouble(clock))
    running = asyncio.create_task(loop.run(desk.service.actions.step))
    await gated.begun.acquire()
    loop.stop()
    gated.gate.set()
    await running
    assert gated.begun.locked()  # no other search has begun


async def test_idle_nodes_read_little(desk: Desk):
    """With nothing to do, a node looks every few seconds; with something, it takes a breath."""
    assert await desk.step() == pytest.approx(LOOK_EVERY)
    await put_timers(desk.store, 30)
    await desk.ask("cancel")
    assert await desk.step() == SHORTEST_BREATH


async def test_a_record_of_another_version_is_left_alone(desk: Desk):
    """What cannot be read stands in nobody's way, and stays."""
    strange = Record(kind="action", name="other/x", data=b'{"what": 1}')
    await desk.store.put_record(None, strange)
    await put_timers(desk.store, 5)
    action = await desk.ask("cancel")
    await desk.work()
    assert counts(await desk.see(action)) == (5, 5, 0, 0)
    assert await desk.store.records("action") == [strange]


async def test_an_action_that_cannot_be_done_fails_alone(desk: Desk, monkeypatch):
    """It is failed with what went wrong, and the others go on."""
    await put_timers(desk.store, 5)
    bad = await desk.ask("shift", by="1h")
    good = await desk.ask("cancel")
    monkeypatch.setattr("duetime.bulk.verbs.shift", lambda *_: 1 / 0)
    await desk.work()
    assert (await desk.see(bad)).state == "failed"
    assert "ZeroDivisionError" in ((await desk.see(bad)).error or "")
    assert counts(await desk.see(good)) == (5, 5, 0, 0)


async def test_the_audit_tells_who_and_how_many(desk: Desk):
    """One line when it is asked for and one with the counts, none for each timer."""
    await put_timers(desk.store, 9)
    asked = CreateKey(name="billing", role=Role.WRITE)
    key, _ = await desk.service.keys.create(OPERATOR, "default", asked)
    caller = Caller("default", Role.WRITE, "billing", key.id, address="10.0.0.1")
    action = await desk.ask("cancel", {"status": "pending"}, caller)
    desk.clock.advance(1)
    await desk.work()
    made, *lines = await desk.store.lines("default", None, 100, descending=False)
    assert made.action == "key.create"
    assert [(line.action, line.actor, line.key, line.address, line.target) for line in lines] == [
        (each, "billing", key.id, "10.0.0.1", action.id)
        for each in ("action.create", "action.done")
    ]
    assert lines[0].details["filter"] == {"status": "pending"}
    assert lines[1].details["changed"] == 9


async def test_actions_are_kept_for_a_while(desk: Desk, clock: FakeClock, monkeypatch):
    """For thirty days, and so many of each tenant; the clerk drops the others."""
    monkeypatch.setattr("duetime.bulk.archive.MOST_KEPT", 3)
    for _ in range(5):
        await desk.ask("cancel")
        await desk.work()
        clock.advance(1)
    assert len(await desk.service.actions.of(OPERATOR)) == 3
    clock.advance(31 * 86_400_000)
    assert await desk.service.actions.of(OPERATOR) == []
    for _ in range(3):
        await desk.step()
    assert await desk.store.records("ended action/default") == []


async def test_at_most_so_many(desk: Desk):
    """A tenant has no more than twenty under way; another tenant is not bothered by that."""
    for _ in range(20):
        await desk.ask("cancel")
    with pytest.raises(Conflict, match="at most 20 under way"):
        await desk.ask("cancel")
    await desk.ask("cancel", caller=Caller("another"))


async def test_at_most_so_many_at_once(desk: Desk):
    """Nor do those get in who ask all at the same time."""
    asked = [desk.ask("cancel") for _ in range(50)]
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert sum(isinstance(answer, Conflict) for answer in answers) == 30
    assert len(await under_way(desk.store)) == 20


async def test_groups_do_not_wait_for_others(desk: Desk):
    """A group is resumed, or deleted, however many actions are under way."""
    for name in ("paused", "old"):
        await desk.service.groups.put(OPERATOR, name, PutGroup())
    await desk.service.groups.pause(OPERATOR, "paused")
    for _ in range(20):
        await desk.ask("cancel")
    await desk.service.resume_group(OPERATOR, "paused")
    await desk.service.delete_group(OPERATOR, "old", cancel=True)
    assert len(await under_way(desk.store)) == 22


async def test_ids_tell_the_order(desk: Desk, clock: FakeClock):
    """Newest first, those under way and those that have ended together."""
    first = await desk.ask("cancel")
    await desk.work()
    clock.advance(1)
    second = await desk.ask("cancel")
    found = await desk.service.actions.of(OPERATOR)
    assert [each.id for each in found] == [second.id, first.id]
    assert all(ids.is_id(each.id) for each in found)
