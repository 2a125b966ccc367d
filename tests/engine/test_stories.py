"""Failures are told to who wants to know, and what they are told."""

import json

import pytest
from msgspec import Raw
from msgspec.structs import replace

from duetime import ids, story
from duetime.requests import UpdateTimer
from duetime.tenancy.caller import OPERATOR, Caller
from duetime.tenancy.requests import CreateTenant, PutGroup, QuotasBody
from duetime.timer import HttpCallback, Kind, OnFailure, Outcome, Progress, Status
from tests.engine.conftest import CLAIM_FOR, Node, running
from tests.engine.telling import (
    DOWN,
    MINUTE,
    TOLD,
    all_timers,
    on_failure_body,
    other_content,
    refusing,
    told_in,
    turn,
)
from tests.factories import insert, make_attempt, make_spec, make_timer
from tests.waiting import settle

pytestmark = pytest.mark.promise("never-lost")


async def test_the_story(node, clock):
    """It tells which timer that was, what of, and what was tried; the two know each other."""
    refusing(node)
    timer = await node.create(
        on_failure=TOLD,
        group="default",
        timer_id="order-1",
        name="remind",
        tags=["a", "b"],
        metadata={"customer": 7},
        correlation_id="c-1",
        callback={
            "type": "http",
            "url": "https://a.example/x?token=s3cret#frag",
            "headers": {"Authorization": "Bearer s3cret"},
            "payload": {"card": "s3cret"},
        },
    )
    await turn(node)
    [told] = told_in(node)
    assert told == {
        "type": "timer.failed",
        "timer": {
            "id": timer.id,
            "timer_id": "order-1",
            "group": "default",
            "name": "remind",
            "tags": ["a", "b"],
            "metadata": {"customer": 7},
            "correlation_id": "c-1",
            "execute_at": "2025-06-15T15:06:40Z",
            "occurrence": 1,
            "attempt": 1,
            "version": 3,
            "callback": {"type": "http", "url": "https://a.example/x", "method": "POST"},
        },
        "failed_at": "2025-06-15T15:06:40Z",
        "last_error": "HTTP 410 Gone",
        "outcome": {"kind": "http", "status_code": 410, "latency_ms": 3},
        "attempts": [
            {
                "occurrence": 1,
                "attempt": 1,
                "started_at": "2025-06-15T15:06:40Z",
                "finished_at": "2025-06-15T15:06:40Z",
                "kind": "http",
                "status_code": 410,
                "latency_ms": 3,
                "error": "HTTP 410 Gone",
                "response": None,
            }
        ],
        "left_out": [],
    }
    assert "s3cret" not in json.dumps(told)
    failed = await node.get(timer)
    sent = node.sender.sent[-1]
    assert (failed.status, failed.wake_at, failed.progress.story) == (Status.FAILED, None, sent.id)
    made = await node.service.get(OPERATOR, sent.id)
    assert made == await node.service.get_by_key(OPERATOR, "default", sent.timer_id)
    assert (made.status, made.spec.tells_of) == (Status.COMPLETED, timer.id)
    assert (made.spec.correlation_id, made.spec.tags) == ("c-1", ("a", "b"))
    assert (made.spec.name, made.spec.on_failure) == ("failed: remind", None)
    assert (made.group, made.shard) == ("default", timer.shard)


async def test_it_has_attempts_of_its_own(node, clock):
    """Who is to be told may be down too: that is tried for hours, or as it was asked for."""
    node.sender.answer = DOWN
    usual = await node.create(on_failure=TOLD)
    own = await node.create(on_failure={**TOLD, "retry_policy": {"max_attempts": 2}})
    await turn(node)
    stories = {each.spec.tells_of: each for each in await all_timers(node)}
    assert stories[usual.id].spec.retry_policy == story.USUAL_POLICY
    assert stories[own.id].spec.retry_policy.max_attempts == 2
    assert stories[usual.id].status is Status.PENDING
    for _ in range(10):
        clock.advance(60 * MINUTE)
        await turn(node)
    ends = [each for each in await all_timers(node) if each.spec.tells_of]
    assert [each.status for each in ends] == [Status.FAILED] * 2  # and nobody is told of that
    assert {each.spec.tells_of: each.progress.failures for each in ends} == {usual.id: 8, own.id: 2}


async def test_only_failures_are_told(node, clock):
    """Not what was delivered, nor what somebody canceled; nor while there are attempts left."""
    done = await node.create(on_failure=TOLD)
    canceled = await node.create(delay="1h", on_failure=TOLD)
    await node.service.cancel(OPERATOR, canceled.id)
    await turn(node)
    assert (await node.get(done)).status is Status.COMPLETED
    refusing(node, DOWN)
    await node.create(on_failure=TOLD, retry_policy={"max_attempts": 2, "jitter": 0.0})
    await turn(node)
    assert told_in(node) == []
    clock.advance(1_000)
    await turn(node)
    assert len(told_in(node)) == 1
    assert [each["attempt"] for each in told_in(node)[0]["attempts"]] == [1, 2]


async def test_a_deadline_is_told(node, clock):
    """That no attempt was made is a failure as well."""
    await node.create(delay="1s", deadline="1s", on_failure=TOLD)
    clock.advance(MINUTE)
    await turn(node)
    [told] = told_in(node)
    assert (told["last_error"], told["attempts"], told["outcome"]) == ("deadline passed", [], None)


async def test_losses_are_told(node, clock, store):
    """A timer that takes its nodes down is given up, and that is told."""
    timer = await node.create(on_failure=TOLD)
    for number in range(10):
        victim = type(node)(store, clock, f"victim-{number}")
        await victim.engine.reader.step()
        await victim.engine.dispatcher.step()
        clock.advance(CLAIM_FOR + 1)
    await turn(node)
    assert (await node.get(timer)).status is Status.FAILED
    [told] = told_in(node)
    assert told["last_error"].startswith("gave up after 10 attempts in a row")
    assert [each["attempt"] for each in told["attempts"]] == list(range(1, 11))


async def test_each_failure_is_told_once(node, clock):
    """A redrive that fails again is another failure; so is one of new content under the key."""
    refusing(node)
    timer = await node.create(timer_id="k", on_failure=TOLD)
    await turn(node)
    for _ in range(2):
        await node.service.redrive(OPERATOR, timer.id)
        await turn(node)
    assert len(told_in(node)) == 3
    await node.service.put(OPERATOR, other_content(delay="0s", on_failure=on_failure_body()))
    await turn(node)
    assert [each["timer"]["attempt"] for each in told_in(node)] == [1, 2, 3, 1]
    assert len({sent.timer_id for sent in node.sender.sent if sent.spec.tells_of}) == 4


async def test_it_is_short_whatever_the_timer_carries(store, clock):
    """What is long is cut, or left out and named; of many attempts the last ten are told."""
    node = Node(store, clock, breaker_failures=0)  # so many in a row would shut its target
    long = Outcome(
        kind=Kind.HTTP, status_code=500, error="e" * 9_999, response="r" * 9_999, retryable=True
    )
    refusing(node, long)
    await node.create(
        on_failure=TOLD,
        metadata={"m": "x" * 100_000},
        callback={"type": "http", "url": "https://a.example/", "payload": "p" * 100_000},
        retry_policy={"max_attempts": 25, "initial_interval": "1s", "backoff_multiplier": 1.0},
    )
    for _ in range(25):
        clock.advance(2_000)
        await node.turn()
    await turn(node)
    [told] = told_in(node)
    assert [each["attempt"] for each in told["attempts"]] == list(range(16, 26))
    assert len(told["last_error"]) == len(told["attempts"][0]["response"]) == story.LONGEST_TEXT
    assert (told["timer"]["metadata"], told["left_out"]) == (None, ["timer.metadata"])
    assert len(json.dumps(told)) < 64 * 1024


def test_the_longest_there_is():
    """Characters of four bytes in all that may be long: it is within what is documented."""
    long = Outcome(kind=Kind.HTTP, error="\U0001f600" * 2_000, response="\U0001f600" * 20_000)
    spec = make_spec(
        callback=HttpCallback(url="https://a.example/" + "\U0001f600" * 2_000),
        name="\U0001f600" * 255,
        tags=tuple("\U0001f600" * 127 + chr(65 + number) for number in range(32)),
        correlation_id="\U0001f600" * 255,
        metadata=Raw(b'"%s"' % (b"x" * (story.LARGEST_METADATA - 2))),
    )
    progress = Progress(last_error=long.error, outcome=long)
    timer = make_timer(spec=spec, progress=progress, timer_id="\U0001f600" * 255)
    attempts = [make_attempt(timer, outcome=long) for _ in range(20)]
    told = story.payload_of(timer, attempts)
    assert 100 * 1024 < len(told) < 192 * 1024
    assert json.loads(told)["left_out"] == []


async def test_quotas_count_it_and_refuse_none(node, clock):
    """Who may create nothing more is told of failures all the same."""
    refusing(node)
    await node.service.groups.put(OPERATOR, "g", PutGroup())
    timer = await node.create(group="g", on_failure=TOLD)
    quotas = QuotasBody(pending=0, creates_per_second=0.001, payload_bytes=0)
    await node.service.groups.put(OPERATOR, "g", PutGroup(quotas=quotas))
    await turn(node)
    assert len(told_in(node)) == 1
    assert (await node.get(timer)).progress.story is not None


async def test_a_group_gives_it_to_its_timers(node, clock):
    """Unless they ask for another, or for none."""
    refusing(node)
    await node.service.groups.put(OPERATOR, "g", PutGroup(on_failure=on_failure_body()))
    given = await node.create(group="g")
    none = await node.create(group="g", on_failure=None)
    other = await node.create(
        group="g", on_failure={"callback": {"type": "http", "url": "https://told.example/2"}}
    )
    await turn(node)
    assert {told["timer"]["id"] for told in told_in(node)} == {given.id, other.id}
    assert (await node.get(none)).spec.on_failure is None
    urls = {sent.spec.callback.url for sent in node.sender.sent if sent.spec.tells_of}
    assert urls == {"https://told.example/hook", "https://told.example/2"}


async def test_an_update_changes_who_is_told(node, clock):
    """While the timer waits; null means nobody."""
    refusing(node)
    nobody = await node.create(delay="1s", on_failure=TOLD)
    somebody = await node.create(delay="1s")
    await node.service.update(OPERATOR, nobody.id, UpdateTimer(on_failure=None))
    await node.service.update(OPERATOR, somebody.id, UpdateTimer(on_failure=on_failure_body()))
    clock.advance(1_000)
    await turn(node)
    assert [told["timer"]["id"] for told in told_in(node)] == [somebody.id]


async def test_of_a_group_that_is_gone_nobody_is_told(node, clock):
    """Nothing is made in it any more; the failed timer sleeps, and can be dropped."""
    refusing(node)
    await node.service.groups.put(OPERATOR, "g", PutGroup())
    timer = await node.create(group="g", on_failure=TOLD)
    await node.turn()
    await node.service.groups.delete(OPERATOR, "g")
    await turn(node)
    assert told_in(node) == []
    failed = await node.get(timer)
    assert (failed.wake_at, failed.progress.story) == (None, None)
    assert node.service.groups.is_there("default", "g") is False


async def test_a_tenant_that_may_stay_is_told_later(node, clock):
    """While it is being deleted nothing is made for it; if it stays, what failed is told."""
    refusing(node)
    service = node.service
    await service.tenants.create(OPERATOR, CreateTenant(name="acme"))
    acme = Caller("acme")
    timer = make_timer(
        tenant="acme",
        execute_at=clock.now(),
        spec=make_spec(
            on_failure=OnFailure(callback=HttpCallback(url="https://told.example/")),
            callback=HttpCallback(url="https://a.example/"),
        ),
    )
    await insert(node.store, timer)
    await node.turn()
    kept = service.rules.tenants.kept("acme")
    leaving = replace(kept.document, leaving_since=clock.now())
    assert await service.rules.put(service.rules.tenants, "acme", kept, leaving)
    await turn(node)
    assert told_in(node) == []
    assert (await service.get(acme, timer.id)).wake_at is not None
    kept = service.rules.tenants.kept("acme")
    stays = replace(kept.document, leaving_since=None)
    assert await service.rules.put(service.rules.tenants, "acme", kept, stays)
    await turn(node)
    assert len(told_in(node)) == 1


async def test_a_paused_group_holds_it_like_any_timer(node, clock):
    """The story is made, so that nothing can get lost, and waits until its group goes on."""
    refusing(node)
    await node.service.groups.put(OPERATOR, "g", PutGroup())
    timer = await node.create(group="g", on_failure=TOLD)
    await node.turn()
    await node.service.groups.pause(OPERATOR, "g")
    await turn(node)
    assert told_in(node) == []
    assert (await node.get(timer)).progress.story is not None


async def test_the_key_is_the_same_whoever_makes_it():
    """It has the form of an id, so that it lies in the shard of the timer that failed."""
    timer = make_timer(shard=0x123)
    key = story.key_of(timer)
    assert ids.is_id(key)
    assert ids.shard_of(key) == ids.key_shard("t", "g", key, 4096) == 0x123
    assert key == story.key_of(replace(timer, status=Status.FAILED))
    assert key != story.key_of(replace(timer, version=2))


async def test_a_node_tells_by_itself(node, clock):
    """With all its loops, as it runs in service."""
    refusing(node)
    node.service.add_chores(node.engine)
    await node.engine.join()
    task = await running(node)
    timer = await node.create(on_failure=TOLD)
    for _ in range(50):
        clock.advance(100)
        await settle()
    assert len(told_in(node)) == 1
    assert (await node.get(timer)).wake_at is None
    await node.engine.stop(0.0)
    await task
