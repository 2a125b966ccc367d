"""The checker says which promises a history breaks.

What it goes by, for a receiver that answers 200 to all and in time:

- **Delivered.** A timer whose create was acknowledged arrives, in the content that was
  acknowledged last, unless a cancel of it was acknowledged or is in doubt, or it may be left
  paused. If a later update is in doubt, its content will do as well. A create in doubt counts as
  soon as the timer was seen in the service. What the service calls completed has arrived.
- **Nothing of nothing.** Content whose create or update was refused, or answered with "nothing
  was written", never arrives.
- **Never early.** No arrival is before the due time it names; and that is not before the request
  that asked for it plus its delay, unless the timer was fired.
- **Stopped is stopped.** A cancel, a pause and an update are written only onto a row that is
  pending or paused (``transitions.py``): at that moment nobody held a claim on it. Each attempt
  from before was over: finished, so it had arrived; released as unsent, so it never arrives; or
  lost with its node, and then taken up, which leaves the row executing. So whatever arrives
  after the acknowledgement was started after it, which is what must not be. There is
  one way for an older attempt to come in later, and the tests keep it out: a node that is told to
  stop hands back, as lost, what its receiver has not answered within DRAIN_TIMEOUT.
- **One delivery.** A timer arrives once. It may arrive again if the attempt before was under way
  when a fault hit its node: its execution log calls it lost, and names a node that was hit. The
  same goes for an arrival before an acknowledged cancel: without a fault, the timer was completed
  by then, and the cancel refused.
- **A number for each.** No attempt number of a webhook-id arrives twice, hence none is sent by two
  nodes; arrivals of the same content have the same webhook-id, and their numbers grow.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from duetime.clock import Millis
from tests.cluster.history import Action, Ask, Delivery, History, Line, Story, Verdict

# An attempt that has neither ended nor been renewed for the time of a claim is taken up by the
# others, fault or no fault: so what a fault cut short was no older than that.
SLACK: Millis = 2_000

_CONTENT = frozenset({Action.CREATE, Action.UPDATE})
_LETS_GO = frozenset({Action.RESUME, Action.FIRE})

Lines = dict[tuple[str, int], Line]


class Fault(NamedTuple):
    """Something that was done to the cluster, and to whom."""

    name: str
    start: Millis
    end: Millis
    pids: frozenset[int] | None = None  # the processes that it hit; None: all of them

    def was_near(self, at: Millis, slack: Millis) -> bool:
        return self.start - slack <= at <= self.end + slack

    def hit(self, node: str) -> bool:
        """Tell whether it hit this node, which is named host-pid-token."""
        return self.pids is None or int(node.rsplit("-", 2)[1]) in self.pids


class Lateness(NamedTuple):
    """How late timers arrived for the first time, in milliseconds."""

    count: int
    median: Millis
    p99: Millis
    worst: Millis


def violations(
    history: History, faults: Sequence[Fault] = (), *, slack: Millis = SLACK
) -> list[str]:
    """Everything in this history that must not be."""
    lines = {(line.webhook_id, line.attempt): line for line in history.lines}
    found = list(_same_number(history.deliveries))
    for key, story in history.stories().items():
        problems = [
            *_unasked(story),
            *_early(story),
            *_after_stop(story),
            *_mixed_up(story),
            *_repeated(story, lines, faults, slack),
            *_missing(story),
        ]
        if history.was_looked_at:
            problems += _wrong_end(story)
        found += [f"{key}: {problem}" for problem in problems]
    return found


def outstanding(history: History) -> set[str]:
    """The keys of the timers that must still arrive."""
    return {key for key, story in history.stories().items() if any(_missing(story))}


def lateness(history: History, faults: Iterable[Fault] = (), *, recovery: Millis = 0) -> Lateness:
    """How late first deliveries were, leaving out what was due in a fault and so long after it.

    A timer is late from the moment that it is due, or, if that was later, from the moment that
    its user was told so: before that, nobody could count on it.
    """
    counted = sorted(
        max(story.deliveries[0].at - due, 0)
        for story in history.stories().values()
        if story.deliveries
        and (due := _promised(story, story.deliveries[0])) is not None
        and not any(fault.start <= due <= fault.end + recovery for fault in faults)
    )
    if not counted:
        return Lateness(0, 0, 0, 0)
    last = len(counted) - 1
    return Lateness(len(counted), counted[last // 2], counted[last * 99 // 100], counted[last])


# One rule each ------------------------------------------------------------------------------------


def _same_number(deliveries: list[Delivery]) -> Iterator[str]:
    counts = Counter((delivery.webhook_id, delivery.attempt) for delivery in deliveries)
    for (webhook_id, attempt), count in counts.items():
        if count > 1:
            yield f"attempt {attempt} of {webhook_id} arrived {count} times"


def _unasked(story: Story) -> Iterator[str]:
    for delivery in story.deliveries:
        asks = [
            ask
            for ask in story.asks
            if ask.action in _CONTENT and ask.revision == delivery.revision
        ]
        if not asks:
            yield f"revision {delivery.revision} arrived, and nobody asked for it"
        # One that was repeated may have been done the first time, whatever the second was told.
        elif not any(ask.may_be_done for ask in asks):
            yield f"revision {delivery.revision} arrived, although it was {asks[-1].verdict}"


def _early(story: Story) -> Iterator[str]:
    content: dict[int, Ask] = {}
    for ask in story.asks:
        if ask.action in _CONTENT:
            content.setdefault(
                ask.revision, ask
            )  # one that was repeated may have been done at once
    was_fired = any(ask.action is Action.FIRE and ask.may_be_done for ask in story.asks)
    for delivery in story.deliveries:
        if delivery.at < delivery.due:
            yield f"arrived {delivery.due - delivery.at} ms before it was due"
        ask = content.get(delivery.revision)
        if ask is not None and not was_fired and delivery.due < ask.began + ask.delay:
            yield f"was due {ask.began + ask.delay - delivery.due} ms before the time asked for"


def _after_stop(story: Story) -> Iterator[str]:
    for place, ask in enumerate(story.asks):
        if not ask.is_done:
            continue
        for delivery in story.deliveries:
            if delivery.at > ask.answered and _is_stopped(delivery, ask, story.asks[place + 1 :]):
                yield (
                    f"revision {delivery.revision} arrived {delivery.at - ask.answered} ms after "
                    f"its {ask.action} was acknowledged"
                )


def _is_stopped(delivery: Delivery, by: Ask, asked_later: list[Ask]) -> bool:
    if by.action is Action.UPDATE:
        return delivery.revision < by.revision
    if by.action is Action.PAUSE:
        let_go = [ask.began for ask in asked_later if ask.action in _LETS_GO and ask.may_be_done]
        return not let_go or delivery.at < let_go[0]
    return by.action is Action.CANCEL


def _mixed_up(story: Story) -> Iterator[str]:
    if len({delivery.timer for delivery in story.deliveries}) > 1:
        yield "arrived as two timers"
    for earlier, later in pairwise(story.deliveries):
        if earlier.revision != later.revision:
            continue
        if earlier.webhook_id != later.webhook_id:
            yield f"revision {later.revision} arrived with two webhook-ids"
        elif earlier.attempt > later.attempt:
            yield f"attempt {earlier.attempt} arrived before attempt {later.attempt}"


def _repeated(story: Story, lines: Lines, faults: Sequence[Fault], slack: Millis) -> Iterator[str]:
    is_canceled = any(ask.action is Action.CANCEL and ask.is_done for ask in story.asks)
    for delivery in story.deliveries if is_canceled else story.deliveries[:-1]:
        how = "its cancel was acknowledged" if is_canceled else "it arrived again"
        line = lines.get((delivery.webhook_id, delivery.attempt))
        if line is None or line.kind != "lost":
            kind = "not in the execution log" if line is None else f"logged as {line.kind}"
            yield f"attempt {delivery.attempt} arrived, is {kind}, and {how}"
        elif not any(
            fault.was_near(delivery.at, slack) and fault.hit(line.node) for fault in faults
        ):
            yield (
                f"attempt {delivery.attempt} of node {line.node} arrived at {delivery.at}, with no "
                f"fault of that node near, and {how}"
            )


def _missing(story: Story) -> Iterator[str]:
    arrived = {delivery.revision for delivery in story.deliveries}
    if story.end == "completed" and not arrived:
        yield "is completed and has never arrived"
    elif _must_arrive(story) and not arrived & (wanted := _newest_content(story)):
        yield f"revision {' or '.join(map(str, sorted(wanted)))} has never arrived"


def _must_arrive(story: Story) -> bool:
    is_there = story.end is not None
    may_be_held = False
    for ask in story.asks:
        match ask.action:
            case Action.CREATE:
                is_there = is_there or ask.is_done
            case Action.CANCEL if ask.may_be_done:
                return False
            case Action.PAUSE if ask.may_be_done:
                may_be_held = True
            case Action.RESUME | Action.FIRE if ask.is_done:
                may_be_held = False
    return is_there and not may_be_held


def _newest_content(story: Story) -> set[int]:
    asks = [ask for ask in story.asks if ask.action in _CONTENT]
    newest = max((ask.revision for ask in asks if ask.is_done), default=1)
    in_doubt = {ask.revision for ask in asks if ask.verdict is Verdict.DOUBTFUL}
    return {newest} | {revision for revision in in_doubt if revision > newest}


def _wrong_end(story: Story) -> Iterator[str]:
    done = {ask.action for ask in story.asks if ask.is_done}
    if Action.CREATE in done and story.end is None:
        yield "was acknowledged and is gone"
    elif Action.CANCEL in done and story.end != "canceled":
        yield f"its cancel was acknowledged and it is {story.end}"
    elif _must_arrive(story) and story.end != "completed":
        yield f"ended as {story.end}"


def _promised(story: Story, delivery: Delivery) -> Millis | None:
    """From when on this delivery was late; None if nobody was told of it."""
    told = [
        ask
        for ask in story.asks
        if (ask.action in _CONTENT and ask.revision == delivery.revision) or ask.action in _LETS_GO
    ]
    if any(ask.verdict is Verdict.DOUBTFUL for ask in told):
        return None
    return max([delivery.due, *(ask.answered for ask in told if ask.is_done)])
