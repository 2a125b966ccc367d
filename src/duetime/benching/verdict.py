"""The verdict: what it was that kept a node from more, in a word and in a sentence."""

from typing import Literal, TypeAlias

import msgspec

from duetime.benching.gauge import Busy
from duetime.benching.limit import Found

Cause: TypeAlias = Literal["node", "machine", "benchmark", "store", "unknown", "none"]

USED_UP = 0.85  # of a core, by a process: Python does not get much further
FULL = 0.92  # of all processors
HELD_BACK = 0.1  # of the time


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """How many timers a second are kept, and what is in the way of more."""

    rate: int  # 0: not even the lowest that was tried
    cause: Cause
    limited_by: str  # in words; nothing if the highest rate that was to be tried held


def judge(found: Found, *, workers: int, processors: int, waits_for: str) -> Verdict:
    """Say what the limit is; ``waits_for`` is what the store waits for."""
    rate = found.held.rate if found.held else 0
    if found.failed is None:
        return Verdict(rate=rate, cause="none", limited_by="")
    cause, words = _cause(found.failed.busy, workers, processors, waits_for)
    return Verdict(rate=rate, cause=cause, limited_by=words)


def sentence(verdict: Verdict) -> str:
    """What a person wants to know."""
    if not verdict.rate:
        return f"This machine did not keep the lowest rate that was tried, {because(verdict)}."
    least = "at least " if verdict.cause == "none" else ""
    timers = "timer" if verdict.rate == 1 else "timers"
    return f"This machine keeps {least}{verdict.rate:,} {timers} a second, {because(verdict)}."


def because(verdict: Verdict) -> str:
    """Why it is not more."""
    if verdict.cause == "none":
        return "and no higher rate was tried"
    return f"limited by {verdict.limited_by}"


def _cause(busy: Busy | None, workers: int, processors: int, waits_for: str) -> tuple[Cause, str]:
    if busy is None:
        return "unknown", "what is not known, because this system does not tell who uses its CPU"
    is_full = busy.machine >= FULL
    node = f"{busy.node:.0%} of a core"
    if busy.node >= USED_UP * workers:
        if workers == 1:
            words = f"the node: its process had used {node}"
        else:
            words = f"the node: its {workers} workers had used {busy.node:.1f} cores"
        return "node", f"{words}, and the machine was full as well" if is_full else words
    if is_full:
        return "machine", (
            f"the machine: {processors} processors were {busy.machine:.0%} busy, with the node "
            f"({node}), the receiver, the load generator, and whatever else runs here"
        )
    if busy.throttled >= HELD_BACK:
        return "machine", f"the machine: this container may use no more of it (the node: {node})"
    if busy.tools >= USED_UP:
        return "benchmark", (
            f"the benchmark itself: its load generator or receiver had used {busy.tools:.0%} of a "
            f"core, the node {node}"
        )
    return "store", (
        f"the store: the node had used {node} and the machine {busy.machine:.0%} of its "
        f"processors, and the rest of the time it waited for {waits_for}"
    )
