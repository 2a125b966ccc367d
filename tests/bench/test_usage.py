"""Usage: processor time of a process and all below it, and what a meter makes of it."""

import os
import subprocess
import sys

from bench.databases.sqlite import SqliteFiles
from bench.figure import Aim
from bench.meter import Meter, Used, figures
from duetime.benching.process import started
from duetime.benching.usage import (
    machine_seconds,
    memory_mb,
    stolen_seconds,
    tree_cpu_seconds,
)

WORK = "import time\nwhile time.process_time() < 0.3: pass\n"


def test_a_tree_counts_children_that_have_ended():
    """A connection that was closed has used the processor all the same."""
    before = tree_cpu_seconds(os.getpid())
    subprocess.run([sys.executable, "-c", WORK], check=True)
    assert tree_cpu_seconds(os.getpid()) - before >= 0.25


async def test_a_tree_counts_children_that_run():
    """And so do those that are still there."""
    before = tree_cpu_seconds(os.getpid())
    async with started(["-c", f"{WORK}print(flush=True)\ntime.sleep(600)"]) as child:
        await child.line()
        assert tree_cpu_seconds(os.getpid()) - before >= 0.25
        assert child.memory_mb() > 1


def test_what_the_host_took_is_a_part_of_what_was_busy():
    """Or its share could not be told."""
    stolen = stolen_seconds()
    assert 0 <= stolen <= machine_seconds()[0] <= machine_seconds()[1]


def test_memory():
    """What a process holds, in megabytes."""
    assert 1 < memory_mb(os.getpid()) < 10_000


class Engine:
    """Databases of which only the processor time matters."""

    kind = SqliteFiles.kind
    aims = SqliteFiles.aims
    is_metered = True

    def __init__(self, *readings):
        self._readings = iter(readings)

    def cpu_seconds(self):
        return next(self._readings)


class Node:
    """A node that has used a second more each time it is asked."""

    def __init__(self):
        self._used = 0

    def cpu_seconds(self):
        self._used += 1
        return self._used


def test_a_meter_counts_all_nodes_and_the_database():
    """A meter counts what all nodes and the database have used since it was made."""
    used = Meter(Engine(5.0, 7.5), [Node(), Node()]).used()
    assert used == Used(nodes=2, database=2.5, is_whole=True)
    assert used.scaled(1000).total == 4500


def test_the_part_of_the_database_is_shown_where_it_is_known():
    """And where it is not seen, the figure says so."""

    def told(used):
        return [figure.what for figure in figures("w", "CPU", "s", used)]

    assert told(Used(1, 2, True)) == ["CPU, database included", "CPU, the database's part"]
    assert told(Used(1, None, True)) == ["CPU, database included"]
    assert told(Used(1, None, False)) == ["CPU, database not included"]


def test_an_aim_is_for_the_whole():
    """Work that moves into the database is still work."""
    aim, least = Aim("ratio <=", 1.2), Used(1, 1, True)
    whole, part = figures("w", "CPU", "s", Used(1, 4, True), least=least, aim=aim)
    assert (whole.ratio, whole.is_met) == (2.5, False)
    assert (part.ratio, part.is_met) == (4, None)
