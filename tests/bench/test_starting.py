"""A start is counted from when its process was asked for; the median of several counts."""

from bench.backlog import timer_at
from bench.databases.sqlite import SqliteFiles
from bench.workloads.starting import Start, _store, figures
from bench.workloads.starting import started as seen
from duetime import ids
from duetime.benching.process import Process, started
from duetime.benching.receipts import Receipts
from duetime.stores.opening import open_store
from duetime.timer import Status


class Node(Process):
    """A process of which only its start matters."""

    def __init__(self, started_ns):
        self.started_ns = started_ns


def test_the_first_callback_counts_from_the_start_of_the_process():
    """And the one that came due meanwhile by its own time, whichever came first."""
    receipts = Receipts(first_ns=2_500_000_000, lateness_ms=[61_000.0, 3.5])
    assert seen(Node(1_000_000_000), receipts) == Start(1.5, 3.5)


def test_one_slow_start_does_not_decide():
    """The median has the aim; the worst is told."""
    middle, worst, late = figures("x", [Start(0.9, 2), Start(5.0, 90), Start(1.1, 3)])
    assert (middle.measured, middle.is_met) == (1.1, True)
    assert (worst.measured, worst.is_met) == (5.0, None)
    assert late.samples == [2, 90, 3]


def test_a_median_start_that_takes_too_long_is_missed():
    """Two seconds are the aim."""
    middle, *_ = figures("x", [Start(2.1, 2), Start(0.5, 2), Start(2.2, 2)])
    assert middle.is_met is False


async def test_what_is_to_be_found_is_stored_while_no_node_runs(tmp_path):
    """A node that starts finds one timer late and one still to come."""
    async with SqliteFiles(tmp_path).fresh() as database:
        await _store(database, "http://127.0.0.1:9/hook", 1_000, 5_000)
        assert await database.count(Status.PENDING) == 2
        store = open_store(database.url)
        await store.migrate()
        assert [line.wake_at for line in await store.due(ids.ALL_SHARDS, None, 2_000, 9)] == [1_000]
        await store.close()


def test_a_timer_of_a_start_lies_in_one_of_the_shards(monkeypatch):
    """Else no node would look for it."""
    monkeypatch.setenv("NUM_SHARDS", "1")
    assert timer_at("http://127.0.0.1:9/hook", 1_000).shard == 0


async def test_a_process_knows_when_it_was_asked_for():
    """Before Python itself has started."""
    told = "import time; print(time.time_ns(), flush=True); time.sleep(600)"
    async with started(["-c", told]) as child:
        assert child.started_ns < int(await child.line())
