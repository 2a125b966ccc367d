"""Every verb, on timers of every status: what is changed, what is skipped, and what is counted."""

import pytest
from msgspec.structs import replace

from duetime import model
from duetime.bulk import verbs
from duetime.errors import InvalidRequest
from duetime.retry import RetryPolicy
from duetime.stores import Change
from duetime.timer import Kind, Outcome, Status, Timer
from tests.bulk.desk import Desk, counts, put_timers, stored, under_way
from tests.factories import claimed, completed, insert, make_spec, make_timer

HOUR = 3_600_000
LATER = 1_750_000_000_000 + HOUR


def of_every_status():
    fields = {"created_at": 1_749_000_000_000, "execute_at": LATER}
    pending = [make_timer(**fields) for _ in range(3)]
    return [
        *pending,
        model.pause(make_timer(**fields), LATER),
        model.cancel(make_timer(**fields), LATER),
        claimed(make_timer(**fields)),
        completed(make_timer(**fields)),
    ]


@pytest.mark.parametrize(
    ("verb", "more", "changed", "becomes"),
    [
        ("cancel", {}, {"pending", "paused"}, "canceled"),
        ("pause", {}, {"pending"}, "paused"),
        ("resume", {}, {"paused"}, "pending"),
        ("fire", {}, {"pending", "paused"}, "pending"),
        ("shift", {"by": "1h"}, {"pending", "paused"}, None),
        ("update", {"update": {"name": "other"}}, {"pending", "paused"}, None),
        ("delete", {}, {"pending", "paused", "canceled", "completed"}, "gone"),
    ],
)
async def test_a_verb_changes_what_its_status_allows(desk: Desk, verb, more, changed, becomes):
    """The others are skipped, and stay as they are."""
    before = of_every_status()
    await insert(desk.store, *before)
    action = await desk.ask(verb, **more)
    await desk.work()
    done = await desk.see(action)
    expected = [timer for timer in before if timer.status in changed]
    assert done.state == "done"
    assert counts(done) == (7, len(expected), 7 - len(expected), 0)
    for old, new in zip(before, await stored(desk.store, before), strict=True):
        if old not in expected:
            assert new == old
        elif becomes == "gone":
            assert new is None
        else:
            assert new.version == old.version + 1
            assert new.progress.action == action.id
            assert new.status == (becomes or old.status)
    assert await under_way(desk.store) == []


@pytest.mark.parametrize(
    ("by", "at"), [("90m", LATER + HOUR * 3 // 2), ("-15m", LATER - HOUR // 4), ("-2h", None)]
)
async def test_shift(desk: Desk, by: str, at: int | None):
    """Timers come later or earlier by so much, but never before now."""
    made = await put_timers(desk.store, 6, execute_at=LATER)
    await desk.ask("shift", by=by)
    await desk.work()
    found = await stored(desk.store, made)
    expected = desk.clock.now() if at is None else at
    assert {(timer.execute_at, timer.wake_at) for timer in found} == {(expected, expected)}
    assert {timer.id for timer in desk.noticed} == {timer.id for timer in made}


def failed_once(at: int) -> Timer:
    """A timer that was due long before it failed, and is tried again an hour after that."""
    policy = RetryPolicy(max_attempts=5, initial_interval=HOUR, jitter=0)
    timer = make_timer(execute_at=at - 2 * HOUR, spec=make_spec(retry_policy=policy))
    outcome = Outcome(kind=Kind.TIMEOUT, error="timed out", retryable=True)
    return model.finish(claimed(timer), outcome, at, 0.5)


def of_every_wait(now: int) -> list[Timer]:
    """Retries: one that waits for its time, one that its group holds, one that is paused."""
    return [
        failed_once(now),
        model.hold(failed_once(now - HOUR), now),
        model.pause(failed_once(now), now),
    ]


async def test_a_shift_never_brings_a_retry_forward(desk: Desk):
    """It is put off by so much from when it would start, and its attempts go on being counted."""
    before = of_every_wait(desk.clock.now())
    await insert(desk.store, *before)
    desk.clock.advance(60_000)
    await desk.ask("shift", by="30m")
    await desk.work()
    retry, held, paused = after = await stored(desk.store, before)
    soon = desk.clock.now() + HOUR // 2
    assert retry.wake_at == before[0].wake_at + HOUR // 2
    assert (held.wake_at, held.progress.held_since) == (soon, None)
    assert model.resume(paused, desk.clock.now()).wake_at == soon
    for old, new in zip(before, after, strict=True):
        assert (new.progress.attempt, new.progress.failures) == (1, 1)
        assert new.progress.first_attempt_at == old.progress.first_attempt_at
        assert new.webhook_id == old.webhook_id


async def test_a_shift_of_a_retry_ends_at_its_deadline(desk: Desk):
    """It would never start after that: it has failed to be shifted, and stays as it is."""
    retry = failed_once(desk.clock.now())
    retry = replace(retry, spec=replace(retry.spec, deadline=4 * HOUR))
    await insert(desk.store, retry)
    action = await desk.ask("shift", by="2h")
    await desk.work()
    done = await desk.see(action)
    assert counts(done) == (1, 0, 0, 1)
    assert done.tally.examples[0].error.startswith("by: leads beyond its deadline")
    assert await stored(desk.store, [retry]) == [retry]


def test_a_shift_of_a_paused_retry_ends_there_too():
    """Its execute_at moves, since it has no other time; its deadline stays."""
    now = 1_750_000_000_000
    retry = failed_once(now)
    paused = model.pause(replace(retry, spec=replace(retry.spec, deadline=4 * HOUR)), now)
    with pytest.raises(InvalidRequest, match="deadline"):
        verbs.shift(paused, now, 5 * HOUR)


async def test_an_update_of_tags_fires_no_retry(desk: Desk):
    """Whatever waits goes on waiting, for its next attempt or for its group or to be resumed."""
    before = of_every_wait(desk.clock.now())
    await insert(desk.store, *before)
    action = await desk.ask("update", update={"tags": ["x"]})
    await desk.work()
    for old, new in zip(before, await stored(desk.store, before), strict=True):
        assert (new.spec.tags, new.wake_at) == (("x",), old.wake_at)
        assert new.progress == replace(old.progress, action=action.id)


async def test_what_cannot_be_done_is_counted_with_examples(desk: Desk):
    """A timer that would lie beyond all times has failed; the others are shifted."""
    near = await put_timers(desk.store, 2, execute_at=LATER)
    far = await put_timers(desk.store, 7, execute_at=253_402_300_000_000)
    action = await desk.ask("shift", by="3000d")
    await desk.work()
    done = await desk.see(action)
    assert counts(done) == (9, 2, 0, 7)
    assert len(done.tally.examples) == 5
    assert {each.error for each in done.tally.examples} == {"by: leads beyond the year 9999"}
    assert await stored(desk.store, far) == far
    assert all(timer.version == 2 for timer in await stored(desk.store, near))


async def test_fired_timers_are_noticed(desk: Desk):
    """The engine hears of what is due now."""
    made = await put_timers(desk.store, 9, execute_at=LATER)
    await desk.ask("fire")
    await desk.work()
    assert {(timer.id, timer.wake_at) for timer in desk.noticed} == {
        (timer.id, desk.clock.now()) for timer in made
    }


async def test_a_dry_run_only_counts(desk: Desk):
    """Nothing is written, and the numbers are those of the real run."""
    before = of_every_status()
    await insert(desk.store, *before)
    dry = await desk.ask("cancel", dry_run=True)
    await desk.work()
    assert await stored(desk.store, before) == before
    assert counts(await desk.see(dry)) == (7, 4, 3, 0)
    wet = await desk.ask("cancel")
    await desk.work()
    assert counts(await desk.see(wet)) == counts(await desk.see(dry))


async def test_only_what_matches(desk: Desk):
    """A filter that must be sifted finds its timers in every batch."""
    made = await put_timers(desk.store, 10)
    tagged = [
        make_timer(created_at=1_749_000_000_500, spec=make_spec(tags=("a", f"t{number}")))
        for number in range(10)
    ]
    await insert(desk.store, *tagged)
    action = await desk.ask("cancel", {"any_tags": ["t3", "t7", "t9"], "status": "pending"})
    await desk.work()
    assert counts(await desk.see(action)) == (3, 3, 0, 0)
    statuses = [timer.status for timer in await stored(desk.store, tagged)]
    assert [n for n, status in enumerate(statuses) if status is Status.CANCELED] == [3, 7, 9]
    assert await stored(desk.store, made) == made


async def test_timers_that_are_created_later_are_not_meant(desk: Desk):
    """An action comes to an end however many timers come in, and leaves them alone."""
    await put_timers(desk.store, 9)
    action = await desk.ask("cancel")
    await desk.step()
    desk.clock.advance(1)
    late = await put_timers(desk.store, 9, created_at=desk.clock.now())
    await desk.work()
    assert counts(await desk.see(action)) == (9, 9, 0, 0)
    assert await stored(desk.store, late) == late


async def test_a_timer_that_changes_under_it_is_judged_anew(desk: Desk):
    """One that is claimed between the look and the write is skipped, one that is put off is not."""
    made = await put_timers(desk.store, 4)
    store, real, now = desk.store, desk.store.put_record, desk.clock.now()
    claimed_now = model.claim(made[0], "n", now, 1_000)
    put_off = model.update(made[1], now, spec=made[1].spec, execute_at=LATER)

    async def put_record(old, new):
        won = await real(old, new)
        if new is not None and new.kind == "action" and b'"batch"' in new.data:
            await store.apply([Change(made[0], claimed_now), Change(made[1], put_off)])
        return won

    store.put_record = put_record
    action = await desk.ask("cancel")
    await desk.work()
    assert counts(await desk.see(action)) == (4, 3, 1, 0)
    statuses = [timer.status for timer in await stored(store, made)]
    assert statuses == ["executing", "canceled", "canceled", "canceled"]


async def test_what_others_take_away_while_it_is_deleted(desk: Desk):
    """It matched and is gone: who looks at the counts need not care who was faster."""
    made = await put_timers(desk.store, 3)
    real = desk.store.remove

    async def remove(timers):
        assert await real([made[1]]) == [True]  # its retention is over just now
        return await real(timers)

    desk.store.remove = remove
    action = await desk.ask("delete")
    await desk.work()
    assert counts(await desk.see(action)) == (3, 3, 0, 0)
    assert await stored(desk.store, made) == [None] * 3


async def test_it_gives_up_on_a_timer_that_keeps_changing(desk: Desk):
    """A timer that changes before every write has failed, and does not hold the action up."""
    made = await put_timers(desk.store, 3)
    real = desk.store.apply

    async def apply(changes):
        for change in changes:
            if change.old.id == made[1].id:
                other = replace(change.old, version=change.old.version + 1)
                await real([Change(change.old, other)])
        return await real(changes)

    desk.store.apply = apply
    action = await desk.ask("cancel")
    await desk.work()
    done = await desk.see(action)
    assert counts(done) == (3, 2, 0, 1)
    assert [each.error for each in done.tally.examples] == ["it keeps changing"]
