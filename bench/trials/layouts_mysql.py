"""What the layout of a timer costs in MySQL's family: one table or two, partitions or none.

Run as ``python -m bench.trials.layouts_mysql URL`` on a server that nobody else uses: it inserts,
claims and finishes timers in transactions of 500, as the store does, and prints for each step the
bytes of redo log for a timer, and rows a second; then the bytes on disk. The database of the URL is
left empty.
"""

import asyncio
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from bench.backlog import DUE, due_timers, finishing
from duetime import model
from duetime.stores.mysql import statements
from duetime.stores.mysql.address import Address
from duetime.stores.mysql.session import Session, connect
from duetime.stores.schema import migrations
from duetime.timer import Timer

COUNT = 30_000
SIZE = 500
PARTITIONS = " PARTITION BY KEY (id) PARTITIONS 16"


class Layout(NamedTuple):
    """One way to lay timers out: the statements that make it, and what a timer's rows are."""

    name: str
    makes: list[str]
    is_one_table: bool = False


def layouts() -> Iterator[Layout]:
    """The store's own tables, and what might have been."""
    script = migrations("mysql")[0].script
    asked, states = (
        part for part in script.split(";") if " timers (" in part or " states (" in part
    )
    not_unique = asked.replace("UNIQUE KEY", "KEY")
    both = _merged(asked, states)
    yield Layout("one table", [both], is_one_table=True)
    yield Layout(
        "one table, 16 partitions, keys not unique",
        [both.replace("UNIQUE KEY", "KEY") + PARTITIONS],
        is_one_table=True,
    )
    yield Layout("two tables, as they are", [asked, states])
    yield Layout(
        "two, 16 partitions, keys not unique", [not_unique + PARTITIONS, states + PARTITIONS]
    )
    without = states.replace("states_status (tenant, status, id)", "states_status (shard)")
    yield Layout(
        "two, no status indexed", [asked, without, "ALTER TABLE states DROP KEY states_status"]
    )


def _merged(asked: str, states: str) -> str:
    """One table with the columns and the indexes of both."""
    columns = [
        line.partition("--")[0].rstrip()
        for line in states.splitlines()
        if line.startswith("    ") and line.split()[0] not in {"id", "tenant", "--"}
    ]
    return asked.replace("    UNIQUE KEY", "\n".join(columns) + ",\n    UNIQUE KEY", 1)


def writing(
    layout: Layout, batch: Sequence[Timer], session: Session, *, is_new: bool
) -> list[bytes]:
    """The statements that write a batch."""
    if not layout.is_one_table:
        rows = [statements.state_row(timer) for timer in batch]
        if not is_new:
            return [statements.moving(rows, session.dialect)]
        timer_rows = [statements.timer_row(timer) for timer in batch]
        return [statements.inserting_timers(timer_rows), statements.inserting_states(rows)]
    places = [place for place, name in enumerate(statements.STATE) if name not in {"id", "tenant"}]
    names = (*statements.TIMER, *(statements.STATE[place] for place in places))
    whole = []
    for timer in batch:
        # No text of these timers has a comma outside of its spec and its progress, which come last.
        state = statements.state_row(timer)[1:-1].split(b",", len(statements.STATE) - 1)
        whole.append(
            statements.timer_row(timer)[:-1]
            + b","
            + b",".join(state[place] for place in places)
            + b")"
        )
    insert = f"INSERT INTO timers ({', '.join(names)}) VALUES ".encode() + b",".join(whole)
    return [insert if is_new else insert + session.dialect.upsert(statements.MOVED).encode()]


async def logged(session: Session) -> int:
    """Bytes of redo log so far."""
    [(_, value)] = await session.rows("SHOW GLOBAL STATUS LIKE 'Innodb_os_log_written'")
    return int(value)


async def measure(session: Session, layout: Layout) -> None:
    """Make the tables, go through all steps, and drop them."""
    for make in layout.makes:
        await session.ask(make)
    new = due_timers(COUNT)
    claimed = [model.claim(timer, "node-1", DUE, 60_000) for timer in new]
    steps: dict[str, tuple[list[Timer], Callable[[Sequence[Timer]], list[bytes | str]]]] = {
        "insert": (new, lambda _: []),
        "claim": (claimed, _locking(layout)),
        "finish": ([finishing(timer).new for timer in claimed], _locking(layout)),
    }
    found = []
    for name, (rows, before) in steps.items():
        batches = [rows[at : at + SIZE] for at in range(0, COUNT, SIZE)]
        packets = [
            (before(batch), writing(layout, batch, session, is_new=name == "insert"))
            for batch in batches
        ]
        log, begun = await logged(session), time.perf_counter()
        for lock, write in packets:
            await session.ask("BEGIN", *lock)
            await session.ask(*write, "COMMIT")
        rate = COUNT / (time.perf_counter() - begun)
        found.append(f"{name} {(await logged(session) - log) / COUNT:,.0f} B, {rate:,.0f}/s")
    tables = "timers" if layout.is_one_table else "timers, states"
    await session.ask(f"ANALYZE TABLE {tables}")
    [(rows_size, index_size)] = await session.rows(
        "SELECT sum(data_length), sum(index_length) FROM information_schema.tables "
        "WHERE table_schema = database()"
    )
    found.append(f"rows {int(rows_size) / COUNT:,.0f} B, indexes {int(index_size) / COUNT:,.0f} B")
    print(f"{layout.name:42} {'; '.join(found)}", flush=True)
    await session.ask(f"DROP TABLE {tables}")


def _locking(layout: Layout) -> Callable[[Sequence[Timer]], list[bytes | str]]:
    table = "timers" if layout.is_one_table else "states"
    return lambda batch: [
        statements.locking([timer.id for timer in batch]).replace("states", table)
    ]


async def main() -> None:
    """Measure every layout."""
    session = await connect(Address.parse(sys.argv[1]))
    for layout in layouts():
        await measure(session, layout)
    session.close()


if __name__ == "__main__":
    asyncio.run(main())
