"""A tally counts the instructions of Python's own machine, and calls, of each function.

An instruction is a bytecode. How many of them a piece of work takes depends on the work alone, and
not on how fast or how busy the machine is. What is done in C counts as the call that it is.
"""

import gc
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from threading import get_ident
from types import CodeType, FrameType
from typing import Any, NamedTuple, Protocol

_TESTS = str(Path(__file__).parents[1])
_WASTE = str(Path(__file__).with_name("waste.py"))
_ROOTS = ("/site-packages/", "/src/", f"/python{sys.version_info[0]}.{sys.version_info[1]}/")

Trace = Callable[[FrameType, str, Any], Any]


class Counted(NamedTuple):
    """What a function did."""

    instructions: int
    calls: int  # or how often it went on, if it can wait


class Tally(Protocol):
    """Counts in every thread that begins while it is ``installed``, and in the one that counts.

    The code of tests is left out, as it plays the part of others. ``waste`` is there to be counted.
    """

    def installed(self) -> AbstractContextManager[None]:
        """See to it that threads that begin meanwhile can be counted."""

    def counting(self) -> AbstractContextManager[None]:
        """Count what is done meanwhile."""

    def by_code(self) -> Iterator[tuple[CodeType, Counted]]:
        """What was counted; some code may come more than once."""


def new_tally() -> Tally:
    """The one that this Python can do with."""
    # Python 3.12.1 crashes as it traces instructions, and where there is monitoring, it is quicker.
    return MonitoringTally() if sys.version_info >= (3, 12) else TracingTally()


class MonitoringTally:
    """Counts by ``sys.monitoring``, which sees all threads."""

    def __init__(self) -> None:
        # By the ids of the codes: to hash a code, Python goes through all of it each time.
        self._codes: dict[int, CodeType] = {}
        self._instructions: defaultdict[int, int] = defaultdict(int)
        self._calls: defaultdict[int, int] = defaultdict(int)

    def installed(self) -> AbstractContextManager[None]:
        return nullcontext()

    @contextmanager
    def counting(self) -> Iterator[None]:
        monitoring: Any = sys.monitoring
        tool, events = monitoring.PROFILER_ID, monitoring.events
        codes, instructions, calls = self._codes, self._instructions, self._calls

        def on_call(code: CodeType, _offset: int) -> None:
            which = id(code)
            codes[which] = code
            calls[which] += 1

        def on_instruction(code: CodeType, _offset: int) -> None:
            which = id(code)
            # No other thread comes in between: Python changes threads at calls and in loops only.
            instructions[which] += 1

        monitoring.use_tool_id(tool, "duetime's guard")
        monitoring.register_callback(tool, events.PY_START, on_call)
        monitoring.register_callback(tool, events.PY_RESUME, on_call)
        monitoring.register_callback(tool, events.INSTRUCTION, on_instruction)
        with _no_search_for_cycles():
            monitoring.set_events(tool, events.PY_START | events.PY_RESUME | events.INSTRUCTION)
            try:
                yield
            finally:
                monitoring.set_events(tool, 0)
                monitoring.free_tool_id(tool)

    def by_code(self) -> Iterator[tuple[CodeType, Counted]]:
        for which, code in self._codes.items():
            if _counts(code):
                yield code, Counted(self._instructions[which], self._calls[which])


class TracingTally:
    """Counts by ``sys.settrace``, which is set for each thread."""

    def __init__(self) -> None:
        self._is_on = False
        # Of each code in each thread, so that no two threads ever add to the same number.
        self._cells: dict[tuple[int, CodeType], list[int]] = {}
        self._traces: dict[tuple[int, CodeType], Trace | None] = {}

    @contextmanager
    def installed(self) -> Iterator[None]:
        before = threading.gettrace()
        threading.settrace(self._on_call)
        try:
            yield
        finally:
            threading.settrace(before)

    @contextmanager
    def counting(self) -> Iterator[None]:
        before = sys.gettrace()
        with _no_search_for_cycles():
            self._is_on = True
            sys.settrace(self._on_call)
            try:
                yield
            finally:
                sys.settrace(before)
                self._is_on = False

    def by_code(self) -> Iterator[tuple[CodeType, Counted]]:
        for (_, code), (instructions, calls) in self._cells.items():
            yield code, Counted(instructions, calls)

    def _on_call(self, frame: FrameType, _event: str, _argument: Any) -> Trace | None:
        if not self._is_on:
            return None
        which = get_ident(), frame.f_code
        if which not in self._traces:
            self._traces[which] = self._trace_of(which)
        trace = self._traces[which]
        if trace is not None:
            self._cells[which][1] += 1
            frame.f_trace_lines = False
            frame.f_trace_opcodes = True
        return trace

    def _trace_of(self, which: tuple[int, CodeType]) -> Trace | None:
        if not _counts(which[1]):
            return None
        cell = self._cells[which] = [0, 0]

        def trace(_frame: FrameType, event: str, _argument: Any) -> Trace:
            if event == "opcode":
                cell[0] += 1
            return trace

        return trace


def by_function(tally: Tally) -> dict[str, Counted]:
    """What was counted of each function, the most instructions first."""
    sums: dict[str, Counted] = {}
    for code, counted in tally.by_code():
        had = sums.get(name := _name(code), Counted(0, 0))
        sums[name] = Counted(*map(sum, zip(had, counted, strict=True)))
    return dict(sorted(sums.items(), key=lambda each: (-each[1].instructions, each[0])))


def _counts(code: CodeType) -> bool:
    file = code.co_filename
    return not file.startswith(_TESTS) or file == _WASTE


@contextmanager
def _no_search_for_cycles() -> Iterator[None]:
    """When that happens depends on what came before."""
    was_enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _name(code: CodeType) -> str:
    """Such as "duetime/model.py finish"."""
    file = code.co_filename
    for root in _ROOTS:
        file = file.rpartition(root)[2]
    return f"{file.removeprefix(_TESTS).lstrip('/')} {code.co_qualname}"
