"""The checker: good histories pass, and each kind of broken one is told of."""

from typing import Any

import msgspec

from tests.cluster.checker import Fault, Lateness, lateness, outstanding, violations
from tests.cluster.history import Action, Ask, Delivery, History, Line, Verdict

KILLED = Fault("kill", start=1_450, end=1_460, pids=frozenset({77}))
LOST = Line(webhook_id="id-1", attempt=1, node="host-77-abcdef", kind="lost")


def ask(action: Action, began: int, verdict: Verdict = Verdict.ACKNOWLEDGED, **more: Any) -> Ask:
    """A request that took ten milliseconds; content is the first unless it says otherwise."""
    given = {"key": "k", "revision": 1, "answered": began + 10} | more
    return Ask(action=action, verdict=verdict, began=began, **given)


def created(verdict: Verdict = Verdict.ACKNOWLEDGED) -> Ask:
    """A timer made at 1000 for 1400."""
    return ask(Action.CREATE, 1_000, verdict, delay=400)


def updated(verdict: Verdict = Verdict.ACKNOWLEDGED) -> Ask:
    """New content, asked for at 1200 for 1400."""
    return ask(Action.UPDATE, 1_200, verdict, revision=2, delay=200)


def arrived(at: int = 1_405, **more: Any) -> Delivery:
    given = {"key": "k", "revision": 1, "timer": "id", "webhook_id": "id-1", "attempt": 1}
    return Delivery(**(given | {"at": at, "due": 1_400} | more))


def history(*records: Ask | Delivery | Line, end: str | None = None) -> History:
    made = History()
    made.asks = [record for record in records if isinstance(record, Ask)]
    made.deliveries = [record for record in records if isinstance(record, Delivery)]
    made.lines = [record for record in records if isinstance(record, Line)]
    if end is not None:
        made.note_look({"k": end} if end else {})
    return made


def the_violation(of: History, *faults: Fault) -> str:
    """The one thing that is wrong."""
    [found] = violations(of, faults)
    return found


# Delivered


def test_good():
    """A timer that was acknowledged, arrived once and in time breaks nothing."""
    assert violations(history(created(), arrived(), end="completed")) == []


def test_lost():
    """A timer that was acknowledged and never arrived is told of, and waited for."""
    lost = history(created())
    assert the_violation(lost) == "k: revision 1 has never arrived"
    assert outstanding(lost) == {"k"}


def test_create_in_doubt():
    """A create in doubt need not arrive, and may."""
    doubtful = created(Verdict.DOUBTFUL)
    assert violations(history(doubtful)) == []
    assert violations(history(doubtful, arrived())) == []


def test_create_in_doubt_that_was_seen():
    """A create in doubt must arrive if the service has the timer."""
    seen = history(created(Verdict.DOUBTFUL), end="pending")
    assert outstanding(seen) == {"k"}


def test_create_that_wrote_nothing():
    """A timer of which the service said that nothing was written must not arrive."""
    unwritten = created(Verdict.UNWRITTEN)
    assert violations(history(unwritten)) == []
    found = the_violation(history(unwritten, arrived()))
    assert found == "k: revision 1 arrived, although it was unwritten"


def test_create_that_was_repeated_in_vain():
    """That the second one wrote nothing says nothing of the first, which had no answer."""
    asks = created(Verdict.DOUBTFUL), created(Verdict.UNWRITTEN)
    assert violations(history(*asks, arrived())) == []


def test_nobody_asked():
    """Something that arrives out of nowhere is told of."""
    assert the_violation(history(arrived())) == "k: revision 1 arrived, and nobody asked for it"


def test_old_content_only():
    """A timer whose update was acknowledged must arrive in its new content."""
    assert outstanding(history(created(), updated())) == {"k"}
    assert violations(history(created(), updated(), arrived(revision=2))) == []
    old = violations(history(created(), updated(), arrived()))
    assert "k: revision 2 has never arrived" in old


def test_update_in_doubt():
    """While an update is in doubt, either content will do, but one of them must come."""
    asks = created(), updated(Verdict.DOUBTFUL)
    assert violations(history(*asks, arrived(revision=1))) == []
    assert violations(history(*asks, arrived(revision=2))) == []
    assert the_violation(history(*asks)) == "k: revision 1 or 2 has never arrived"


def test_update_that_was_refused():
    """Content that was refused must not arrive."""
    found = violations(history(created(), updated(Verdict.REFUSED), arrived(revision=2)))
    assert "k: revision 2 arrived, although it was refused" in found


def test_end():
    """A timer that arrived must be completed in the end, and one that is completed have arrived."""
    assert the_violation(history(created(), arrived(), end="failed")) == "k: ended as failed"
    gone = violations(history(created(), arrived(), end=""))
    assert "k: was acknowledged and is gone" in gone
    doubtful = created(), ask(Action.CANCEL, 1_200, Verdict.DOUBTFUL)
    found = the_violation(history(*doubtful, end="completed"))
    assert found == "k: is completed and has never arrived"


# Never early


def test_early():
    """An arrival before the due time that it names is told of, however little."""
    found = the_violation(history(created(), arrived(at=1_399)))
    assert found == "k: arrived 1 ms before it was due"


def test_due_before_it_was_asked_for():
    """The due time that an arrival names must not be before the time that was asked for."""
    found = the_violation(history(created(), arrived(at=1_380, due=1_380)))
    assert found == "k: was due 20 ms before the time asked for"


def test_fired():
    """A timer that was fired is due at once, and no earlier."""
    fired = created(), ask(Action.FIRE, 1_100)
    assert violations(history(*fired, arrived(at=1_115, due=1_105))) == []
    refused = created(), ask(Action.FIRE, 1_100, Verdict.REFUSED)
    assert len(violations(history(*refused, arrived(at=1_115, due=1_105)))) == 1


# Stopped is stopped


def test_canceled():
    """A canceled timer need not arrive, and must not."""
    canceled = created(), ask(Action.CANCEL, 1_200)
    assert violations(history(*canceled, end="canceled")) == []
    found = violations(history(*canceled, arrived(), LOST), [KILLED])
    assert found == ["k: revision 1 arrived 195 ms after its cancel was acknowledged"]


def test_canceled_after_it_arrived():
    """A cancel may be acknowledged after an arrival only if that attempt was lost in a fault."""
    records = created(), arrived(), ask(Action.CANCEL, 1_900)
    assert violations(history(*records, LOST), [KILLED]) == []
    assert "is not in the execution log" in the_violation(history(*records), KILLED)


def test_cancel_that_did_not_hold():
    """A timer whose cancel was acknowledged must be canceled in the end."""
    found = the_violation(history(created(), ask(Action.CANCEL, 1_200), end="pending"))
    assert found == "k: its cancel was acknowledged and it is pending"


def test_cancel_without_effect():
    """A cancel that was refused, or wrote nothing, leaves the timer to arrive."""
    for verdict in (Verdict.REFUSED, Verdict.UNWRITTEN):
        assert outstanding(history(created(), ask(Action.CANCEL, 1_200, verdict))) == {"k"}
    assert outstanding(history(created(), ask(Action.CANCEL, 1_200, Verdict.DOUBTFUL))) == set()


def test_old_content_after_update():
    """Old content that arrives after its update was acknowledged is told of, fault or no fault."""
    late = history(created(), updated(), arrived(), arrived(1_410, revision=2, attempt=2), LOST)
    assert violations(late, [KILLED]) == [
        "k: revision 1 arrived 195 ms after its update was acknowledged"
    ]


def test_paused():
    """A paused timer does not arrive until it is resumed or fired."""
    paused = created(), ask(Action.PAUSE, 1_100)
    assert violations(history(*paused)) == []
    found = the_violation(history(*paused, arrived()))
    assert found == "k: revision 1 arrived 295 ms after its pause was acknowledged"
    resumed = (*paused, ask(Action.RESUME, 1_500))
    assert outstanding(history(*resumed)) == {"k"}
    assert violations(history(*resumed, arrived(at=1_505))) == []
    assert len(violations(history(*resumed, arrived(at=1_450)))) == 1
    in_doubt = (*paused, ask(Action.RESUME, 1_500, Verdict.DOUBTFUL))
    assert violations(history(*in_doubt)) == violations(history(*in_doubt, arrived(1_505))) == []


# One delivery, and a number for each


def test_duplicate_in_a_fault():
    """A second delivery is right if the first was lost with a node that was hit then."""
    records = created(), arrived(), arrived(3_600, attempt=2)
    assert violations(history(*records, LOST), [KILLED]) == []


def test_duplicate_without_a_fault():
    """A second delivery is told of if there was no fault, none near, or none of that node."""
    doubled = history(created(), arrived(), arrived(3_600, attempt=2), LOST)
    elsewhere = KILLED._replace(pids=frozenset({78}))
    later = KILLED._replace(start=4_000, end=4_010)
    for faults in ([], [elsewhere], [later]):
        [found] = violations(doubled, faults)
        assert "with no fault of that node near, and it arrived again" in found


def test_duplicate_of_an_attempt_that_ended():
    """A second delivery is told of if the first was not lost, fault or no fault."""
    ended = Line(webhook_id="id-1", attempt=1, node="host-77-abcdef", kind="ok")
    doubled = history(created(), arrived(), arrived(3_600, attempt=2), ended)
    assert "logged as ok" in the_violation(doubled, KILLED)


def test_same_number_twice():
    """An attempt number that arrives twice is told of, fault or no fault."""
    twice = history(created(), arrived(), arrived(1_500), LOST)
    assert the_violation(twice, KILLED) == "attempt 1 of id-1 arrived 2 times"


def test_numbers_fall():
    """A zombie's attempt that comes in after the one that took it up is told of."""
    lost_too = msgspec.structs.replace(LOST, attempt=2)
    zombie = history(created(), arrived(1_420, attempt=2), arrived(1_500), LOST, lost_too)
    assert "k: attempt 2 arrived before attempt 1" in violations(zombie, [KILLED])


def test_two_identities():
    """One timer must not arrive as two, nor the same content under two webhook-ids."""
    found = violations(
        history(created(), arrived(), arrived(1_500, timer="id2", webhook_id="id2-1"), LOST),
        [KILLED],
    )
    assert found == ["k: arrived as two timers", "k: revision 1 arrived with two webhook-ids"]


# Lateness


def test_lateness():
    """The lateness is that of first deliveries, from the due time or the later promise of it."""
    records = [
        record
        for n in range(100)
        for record in (
            ask(Action.CREATE, 1_000, key=f"{n}", delay=400),
            arrived(1_400 + n, key=f"{n}"),
            arrived(9_000, key=f"{n}", attempt=2),
        )
    ]
    assert lateness(history(*records)) == Lateness(count=100, median=49, p99=98, worst=99)
    resumed = created(), ask(Action.PAUSE, 1_100), ask(Action.RESUME, 1_500), arrived(1_530)
    assert lateness(history(*resumed)).worst == 20


def test_lateness_outside_faults():
    """What was due in a fault, or during the recovery from it, can be left out."""
    late = history(created(), arrived(5_000))
    assert lateness(late, [KILLED]).worst == 3_600
    assert lateness(late, [Fault("stop", 1_300, 1_350)], recovery=100) == Lateness(0, 0, 0, 0)
