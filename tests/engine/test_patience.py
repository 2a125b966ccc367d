"""Outcomes wait while timers are late: what is due goes before what is done."""

from types import SimpleNamespace

import msgspec
import pytest

from duetime.engine import committer as committers
from duetime.engine.claim import Claim
from duetime.engine.committer import GATHER_BEHIND_FOR, GATHER_FOR, Committer
from duetime.engine.lease import Lease
from duetime.timer import Kind, Outcome, Status
from tests.engine.conftest import CLAIM_FOR, Node
from tests.engine.crowds import heavy
from tests.factories import make_timer
from tests.waiting import settle

SENT = Outcome(kind=Kind.OK, status_code=200)
REFUSED = Outcome(kind=Kind.NETWORK, error="refused", retryable=True)


@pytest.fixture
def behind():
    return SimpleNamespace(is_so=True)


@pytest.fixture
def make_committer(store, clock, behind):
    def make(claim_for=CLAIM_FOR):
        return Committer(
            store,
            clock,
            claim_for=claim_for,
            members=SimpleNamespace(lease=Lease()),
            on_written=lambda _: None,
            wake=lambda: None,
            is_behind=lambda: behind.is_so,
        )

    return make


@pytest.fixture
def committer(make_committer):
    return make_committer()


def end(committer, outcome=SENT, timer=None):
    timer = msgspec.structs.replace(timer or make_timer(), status=Status.EXECUTING)
    claim = Claim(timer=timer, holds_until=1e9)
    committer.hold(claim)
    committer.end([claim], outcome)


def test_outcomes_wait_while_timers_are_late(committer, clock):
    """The next claim need not wait for their write; but they do not wait for ever."""
    end(committer)
    clock.advance(int(GATHER_BEHIND_FOR * 1000) - 1)
    assert committer._gathering() > 0
    clock.advance(1)
    assert committer._gathering() == 0


def test_outcomes_wait_no_longer_when_nothing_is_late(committer, clock, behind):
    """They look again every moment."""
    end(committer)
    assert committer._gathering() <= GATHER_FOR
    behind.is_so = False
    clock.advance(int(GATHER_FOR * 1000))
    assert committer._gathering() <= 0


def test_what_has_failed_does_not_wait(committer, clock):
    """It may have to be tried again in a moment."""
    end(committer)
    end(committer, REFUSED)
    clock.advance(int(GATHER_FOR * 1000))
    assert committer._gathering() <= 0


def test_many_outcomes_wait_no_longer(committer, monkeypatch):
    """If the node dies, no more than so many callbacks are repeated."""
    monkeypatch.setattr(committers, "ENOUGH_BEHIND", 3)
    for _ in range(2):
        end(committer)
    assert committer._gathering() > 0
    end(committer)
    assert committer._gathering() == 0


@pytest.mark.promise("bounded-memory")
async def test_heavy_outcomes_do_not_wait(committer, clock, monkeypatch):
    """What has ended is held in memory until it is written."""
    monkeypatch.setattr(committers, "HEAVY", 100 * 1024)
    end(committer, timer=heavy(64))
    clock.advance(int(GATHER_FOR * 1000))
    assert committer._gathering() > 0
    end(committer, timer=heavy(64))
    assert committer._gathering() <= 0
    await committer.step()
    assert committer._ended_weight == 0


def test_claims_are_renewed_in_time(make_committer, clock):
    """Where claims are short, so is the patience: one pass does both."""
    committer = make_committer(claim_for=800)
    end(committer)
    clock.advance(100)
    assert committer._gathering() == 0


async def test_a_failure_hurries_only_those_beside_it(committer, clock):
    """When they are written, the next ones wait again."""
    end(committer, REFUSED)
    await committer.step()
    end(committer)
    clock.advance(int(GATHER_FOR * 1000))
    assert committer._gathering() > 0


async def test_an_outcome_that_could_not_be_written_is_weighed_again(committer, store):
    """A store that fails does not make it forget what it holds."""
    end(committer)
    weight = committer._ended_weight
    store.failing = "before"
    with pytest.raises(Exception, match="as told"):
        await committer.step()
    assert committer._ended_weight == weight


async def test_a_node_is_behind_while_timers_could_be_claimed(store, clock):
    """Which is when they are due and have a place, not when they wait for their receiver."""
    node = Node(store, clock)
    assert not node.engine.dispatcher.is_behind
    await node.create(delay="1s")
    assert not node.engine.dispatcher.is_behind
    clock.advance(1_000)
    assert node.engine.dispatcher.is_behind
    await node.dispatch()
    await settle()
    assert not node.engine.dispatcher.is_behind
