"""Standstills: what they touched is left out, whatever runs is no standstill, and all are seen."""

import os
import signal
import subprocess
import sys
import time

import pytest

from bench import standstills
from bench.standstills import AFTER, Standstills, watched
from duetime.benching.receipts import Receipts
from tests.servers.processes import freeze
from tests.waiting import PATIENCE, until

MS = 1_000_000


def arrivals(*timers):
    """Callbacks by when they were due and how late they came, both in milliseconds."""
    return Receipts(
        count=len(timers),
        arrived_ns=[(due + late) * MS for due, late in timers],
        lateness_ms=[float(late) for _, late in timers],
    )


def test_what_it_touched_is_left_out():
    """Whoever was due before its end, or soon after, and arrived after its beginning."""
    after = AFTER // MS
    one = Standstills([(1_000 * MS, 1_020 * MS)])
    calm = one.undisturbed(
        arrivals(
            (990, 9),  # it was here before
            (990, 31),
            (1_005, 16),
            (1_020 + after, 2),  # it may have been claimed in the meantime
            (1_021 + after, 3),
        )
    )
    assert calm.lateness_ms == [9.0, 3.0]
    assert calm.arrived_ns == [999 * MS, (1_024 + after) * MS]
    assert calm.count == 2


def test_they_may_overlap():
    """Each processor has its own, and a long one may have begun first and end last."""
    several = Standstills(
        [(2_000 * MS, 2_010 * MS), (1_000 * MS, 1_900 * MS), (1_100 * MS, 1_110 * MS)]
    )
    calm = several.undisturbed(arrivals((500, 1), (1_700, 150), (1_970, 5), (2_050, 5), (2_500, 1)))
    assert calm.lateness_ms == [1.0, 5.0, 1.0]


def test_without_any_nothing_is_left_out():
    """A machine that ran all the time changes nothing."""
    receipts = arrivals((10, 1), (20, 2))
    assert Standstills().undisturbed(receipts) == receipts


def test_who_sleeps_too_long_stood_still():
    """A millisecond more or less is none; each is told from when to when, until the end."""
    slept = iter([1, 3.9, 1, 54, 1, 5])
    now = 0

    def is_told_within(_):
        nonlocal now
        took = next(slept, None)
        now += round((took or 0) * MS)
        return took is None

    assert list(standstills.standstills(lambda: now, is_told_within)) == [
        (round(5.9 * MS), round(59.9 * MS)),
        (round(60.9 * MS), round(65.9 * MS)),
    ]


def test_a_watch_ends_with_who_asked_for_it():
    """However that ended: its standard input does."""
    command = [sys.executable, "-m", "bench.standstills", str(min(os.sched_getaffinity(0)))]
    subprocess.run(command, stdin=subprocess.DEVNULL, check=True, timeout=PATIENCE)


async def test_a_standstill_is_seen():
    """Each processor has a watch, and one that was not let run tells so, if watches may be."""
    async with watched() as found:
        if found.why_not:
            assert found.why_not.startswith("a watch has no priority here")
            return
        assert len(found.watches) == len(os.sched_getaffinity(0))
        watch = found.watches[0].pid
        freeze(watch)
        frozen_at = time.time_ns()
        await until(lambda: time.time_ns() > frozen_at + 50 * MS, every=0.001)
        os.kill(watch, signal.SIGCONT)
        await until(lambda: any(ended - begun >= 50 * MS for begun, ended in found.seen))


def test_who_may_not_watch_is_told(monkeypatch: pytest.MonkeyPatch, capsys):
    """Without the right to a priority there is no watch, and it says why."""

    def refused(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "sched_setaffinity", lambda *_: None)
    monkeypatch.setattr(os, "sched_setscheduler", refused)
    standstills.main(0)
    assert capsys.readouterr().out == "a watch has no priority here: Operation not permitted\n"
