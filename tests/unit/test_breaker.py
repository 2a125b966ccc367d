"""Breakers: when a receiver that keeps failing is shut, and when it is tried again."""

import pytest
from msgspec.structs import replace

from duetime.engine import breaker as module
from duetime.engine.breaker import FIRST_PAUSE, IDLE_AFTER, LONGEST_ASKED, Breakers
from duetime.testing import FakeClock
from duetime.timer import Kind, Outcome

FAILED = Outcome(kind=Kind.HTTP, status_code=500, error="HTTP 500", retryable=True)
OK = Outcome(kind=Kind.OK, status_code=200)
NAME = "t a.example:443"
LOGGED = "the target a.example:443 of the tenant t"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def breakers(clock) -> Breakers:
    return make(clock)


def make(clock, **options) -> Breakers:
    return Breakers(clock, luck=lambda: 0.0, **{"most_failures": 3} | options)


def fail(breakers: Breakers, times: int = 3, outcome: Outcome = FAILED) -> bool:
    return [breakers.ended(NAME, "x", outcome) for _ in range(times)][-1]


def probe(breakers: Breakers, outcome: Outcome, id_: str = "p") -> bool:
    """Let one through, as the engine does."""
    assert breakers.places(NAME, 0) == 1
    breakers.begun(NAME, id_)
    assert breakers.places(NAME, 1) == 1, "one at a time"
    assert breakers.may_send(NAME, id_)
    changed = breakers.ended(NAME, id_, outcome)
    breakers.left(NAME, id_)
    return changed


def is_shut(breakers: Breakers) -> bool:
    return breakers.places(NAME, 0) == 0


async def test_it_opens_after_so_many_failures_in_a_row(breakers):
    """Not before, and only for the receiver that failed."""
    assert not fail(breakers, 2)
    assert breakers.places(NAME, 5) is None
    assert fail(breakers, 1)
    assert is_shut(breakers)
    assert not breakers.may_send(NAME, "x")
    assert breakers.places("t b.example:443", 0) is None
    assert breakers.places("u a.example:443", 0) is None


@pytest.mark.parametrize(
    "outcome",
    [
        OK,
        Outcome(kind=Kind.HTTP, status_code=404, error="HTTP 404"),
        Outcome(kind=Kind.HTTP, status_code=410),
        Outcome(kind=Kind.HTTP, status_code=302),
        Outcome(kind=Kind.HTTP, status_code=200, error="said no", retryable=True),
    ],
)
async def test_an_answer_in_between_counts_anew(breakers, outcome):
    """Whoever answers is alive, whatever it says to that timer."""
    fail(breakers, 2)
    breakers.ended(NAME, "x", outcome)
    assert not fail(breakers, 2)
    assert not is_shut(breakers)


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504, 599])
async def test_which_answers_are_failures(breakers, status):
    """Those that may be better the next time."""
    assert fail(breakers, 3, Outcome(kind=Kind.HTTP, status_code=status, retryable=True))
    assert is_shut(breakers)


@pytest.mark.parametrize("kind", [Kind.NETWORK, Kind.TIMEOUT, Kind.TLS, Kind.DNS, Kind.NATS])
async def test_no_answer_is_a_failure(breakers, kind):
    """Whatever went wrong on the way to it."""
    assert fail(breakers, 3, Outcome(kind=kind, error="no", retryable=True))


@pytest.mark.parametrize(
    "outcome",
    [
        Outcome(kind=Kind.EGRESS, error="may not be called"),
        Outcome(kind=Kind.UNSENT),
        Outcome(kind=Kind.LOST, retryable=True),
        Outcome(kind=Kind.NATS, error="nats is not configured"),
        Outcome(kind=Kind.NETWORK, error="cannot send: callback.url"),  # the timer is wrong
    ],
)
async def test_what_says_nothing_of_the_receiver(breakers, outcome):
    """It neither counts as a failure nor as a success."""
    fail(breakers, 2)
    assert not fail(breakers, 100, outcome)
    assert not is_shut(breakers)
    assert fail(breakers, 1)


async def test_after_a_pause_one_is_tried_and_success_closes(breakers, clock):
    """Nothing is sent before that."""
    fail(breakers)
    clock.advance(4_999)
    assert is_shut(breakers)
    assert breakers.opens_at(NAME) == clock.monotonic() + 0.001
    clock.advance(1)
    assert not is_shut(breakers)
    assert breakers.opens_at(NAME) is None
    assert probe(breakers, OK)
    assert breakers.places(NAME, 0) is None
    assert not fail(breakers, 2), "it is counted anew"


async def test_each_pause_is_twice_as_long_up_to_the_longest(clock):
    """Five seconds, ten, twenty, and so on."""
    breakers = make(clock, longest_pause=60_000)
    fail(breakers)
    lengths = []
    for _ in range(6):
        at = breakers.opens_at(NAME)
        lengths.append(at - clock.monotonic())
        clock.advance(round(1000 * lengths[-1]))
        assert probe(breakers, FAILED)
    assert lengths == [5, 10, 20, 40, 60, 60]
    clock.advance(60_000)
    probe(breakers, OK)
    fail(breakers)
    assert breakers.opens_at(NAME) == clock.monotonic() + FIRST_PAUSE


@pytest.mark.parametrize("luck", [0.0, 0.5, 1.0])
async def test_nodes_do_not_try_together(clock, luck):
    """A pause is shorter by up to a tenth, and never longer."""
    breakers = Breakers(clock, most_failures=1, luck=lambda: luck)
    fail(breakers, 1)
    assert breakers.opens_at(NAME) == clock.monotonic() + FIRST_PAUSE * (1 - luck / 10)


async def test_a_probe_that_was_not_sent_makes_room_for_another(breakers, clock):
    """Its claim may have been lost, or its group paused meanwhile."""
    fail(breakers)
    clock.advance(5_000)
    breakers.begun(NAME, "p")
    assert breakers.places(NAME, 1) == 1
    breakers.ended(NAME, "p", Outcome(kind=Kind.UNSENT))
    breakers.left(NAME, "p")
    assert breakers.places(NAME, 0) == 1
    assert probe(breakers, OK, "q")


async def test_what_is_under_way_when_it_opens_is_left_to_end(breakers, clock):
    """It neither makes the pause longer nor keeps the probe from starting."""
    fail(breakers)
    at = breakers.opens_at(NAME)
    assert not fail(breakers, 5)
    assert breakers.opens_at(NAME) == at
    clock.advance(5_000)
    assert breakers.places(NAME, 4) == 5
    breakers.begun(NAME, "p")
    assert breakers.places(NAME, 5) == 5
    assert not breakers.may_send(NAME, "straggler")
    assert not fail(breakers, 1)
    assert breakers.is_probed(NAME)
    assert breakers.ended(NAME, "straggler", OK), "if one of them is well, so is the receiver"
    assert breakers.places(NAME, 4) is None


@pytest.mark.parametrize("status", [429, 503])
async def test_retry_after_shuts_at_once(breakers, clock, status):
    """Until the very time that was asked for."""
    asked = Outcome(
        kind=Kind.HTTP, status_code=status, retryable=True, retry_at=clock.now() + 30_000
    )
    assert fail(breakers, 1, asked)
    clock.advance(29_999)
    assert is_shut(breakers)
    clock.advance(1)
    assert probe(breakers, FAILED)
    assert breakers.opens_at(NAME) == clock.monotonic() + FIRST_PAUSE


async def test_retry_after_of_others_shuts_nothing(breakers, clock):
    """A timer that fails with 500 is tried later, and that says nothing of the others."""
    assert not fail(breakers, 1, replace(FAILED, retry_at=clock.now() + 30_000))
    busy = replace(FAILED, status_code=429)
    assert not fail(breakers, 1, replace(busy, retry_at=clock.now() - 1))


async def test_retry_after_is_bounded(breakers, clock):
    """Nobody shuts a receiver for a year by mistake."""
    busy = replace(FAILED, status_code=429, retry_at=clock.now() + 400 * 86_400_000)
    fail(breakers, 1, busy)
    assert breakers.opens_at(NAME) == clock.monotonic() + LONGEST_ASKED


async def test_it_can_be_switched_off(clock):
    """Also for Retry-After, and for what others tell."""
    breakers, other = make(clock, most_failures=0), make(clock)
    fail(breakers, 1000)
    fail(breakers, 1, replace(FAILED, status_code=429, retry_at=clock.now() + 1000))
    fail(other)
    tell(other, breakers, clock)
    assert not is_shut(breakers)
    assert not breakers.failing


async def test_memory_is_bounded(breakers, monkeypatch):
    """However many receivers fail, or answer."""
    monkeypatch.setattr(module, "MOST_REMEMBERED", 10)
    for number in range(100):
        breakers.ended(f"t {number}", "x", FAILED)
        breakers.ended(f"u {number}", "x", OK)
    assert len(breakers.failing) == 10
    assert len(breakers._answered) == 10


# What nodes tell each other -----------------------------------------------------------------------


def tell(teller: Breakers, hearer: Breakers, clock: FakeClock) -> list[str]:
    reports = {name: teller.report(name) for name in teller.remarkable()}
    return hearer.hear([(reports, clock.monotonic())])


async def test_a_node_that_hears_of_it_shuts_for_as_long(breakers, clock):
    """And tries it by itself after that, with the next longer pause if it fails."""
    other = make(clock)
    fail(breakers)
    clock.advance(1_000)
    tell(breakers, other, clock)
    assert other.opens_at(NAME) == breakers.opens_at(NAME)
    assert other.report(NAME).error == "HTTP 500"
    clock.advance(4_000)
    probe(other, FAILED)
    assert other.opens_at(NAME) == clock.monotonic() + 2 * FIRST_PAUSE


async def test_hearsay_is_not_passed_on(breakers, clock):
    """Or else two nodes would keep each other shut for ever, each telling it a bit later."""
    other = make(clock)
    fail(breakers)
    for _ in range(6):
        clock.advance(900)
        tell(breakers, other, clock)
        tell(other, breakers, clock)
    assert breakers.opens_at(NAME) is None
    assert other.opens_at(NAME) is None


async def test_a_node_that_has_been_well_served_since_knows_better(breakers, clock):
    """It may reach what another one cannot."""
    other = make(clock)
    fail(breakers)
    clock.advance(1_000)
    other.tick()
    other.ended(NAME, "x", OK)
    tell(breakers, other, clock)
    assert other.places(NAME, 0) is None


async def test_a_success_before_that_proves_nothing(breakers, clock):
    """It was before the receiver began to fail."""
    other = make(clock)
    other.ended(NAME, "x", OK)
    clock.advance(1_000)
    fail(breakers)
    tell(breakers, other, clock)
    assert is_shut(other)


async def test_a_node_that_hears_of_a_recovery_tries_at_once(breakers, clock):
    """It does not believe it, and tries one."""
    other = make(clock)
    fail(breakers)
    fail(other)
    clock.advance(1_000)
    breakers.ended(NAME, "straggler", OK)
    clock.advance(1_000)
    assert tell(breakers, other, clock) == [NAME]
    assert not is_shut(other)
    assert probe(other, FAILED)
    assert tell(breakers, other, clock) == [], "that was told before"
    assert is_shut(other)


async def test_what_nobody_tells_any_more_is_over(breakers, clock):
    """The node that told it has died, or was told that all is well."""
    other = make(clock)
    fail(breakers)
    tell(breakers, other, clock)
    assert is_shut(other)
    breakers.reset(NAME)
    assert tell(breakers, other, clock) == [NAME]
    assert not is_shut(other)


async def test_who_says_that_it_is_well_is_believed(breakers, clock):
    """Also if others have not heard of that yet."""
    other = make(clock)
    fail(breakers)
    fail(other)
    clock.advance(1_000)
    breakers.reset(NAME)
    tell(other, breakers, clock)
    assert breakers.places(NAME, 0) is None


async def test_a_receiver_that_nobody_calls_any_more_is_forgotten(breakers, clock):
    """There was nothing to try it with for an hour."""
    fail(breakers)
    clock.advance(5_000 + round(1000 * IDLE_AFTER))
    assert breakers.remarkable() == [NAME]
    clock.advance(1)
    assert breakers.remarkable() == []
    assert not breakers.failing


async def test_it_is_logged_once(breakers, clock, caplog):
    """When it begins and when it ends; not with every probe, nor for who asks to be left alone."""
    caplog.set_level("INFO")
    fail(breakers)
    for pause in (5_000, 10_000):
        clock.advance(pause)
        probe(breakers, FAILED)
    clock.advance(20_000)
    probe(breakers, OK)
    assert [record.message for record in caplog.records] == [
        f"{LOGGED} keeps failing (HTTP 500): nothing is sent to it until one callback has tried it",
        f"{LOGGED} is well again after 35.0 s",
    ]
    caplog.clear()
    fail(breakers, 1, replace(FAILED, status_code=429, retry_at=clock.now() + 1_000))
    clock.advance(1_000)
    probe(breakers, OK)
    assert caplog.records == []


async def test_each_line_of_the_log_has_an_end(breakers, clock, caplog):
    """Who asked to be left alone and fails then is told of, and so is who is resumed by hand."""
    caplog.set_level("INFO")
    fail(breakers, 1, replace(FAILED, status_code=429, retry_at=clock.now() + 1_000))
    breakers.reset(NAME)
    assert caplog.records == [], "it was not told that it was shut"
    fail(breakers, 1, replace(FAILED, status_code=429, retry_at=clock.now() + 1_000))
    clock.advance(1_000)
    probe(breakers, FAILED)
    breakers.reset(NAME)
    breakers.reset(NAME)
    assert [record.message for record in caplog.records] == [
        f"{LOGGED} keeps failing (HTTP 500): nothing is sent to it until one callback has tried it",
        f"{LOGGED} is sent to again: it was resumed by hand",
    ]
