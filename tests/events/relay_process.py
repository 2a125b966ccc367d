"""A process that publishes all that is in an outbox, and may kill itself on the way.

python -m tests.events.relay_process DATABASE NATS_URL STREAM [FAULT]
"""

import asyncio
import os
import signal
import sys

from duetime.clock import SystemClock
from duetime.events.relay import Relay
from duetime.events.stream import EventStream
from duetime.ids import ALL_SHARDS
from duetime.nats.connection import Connection
from duetime.nats.jetstream import JetStream
from duetime.stores.sqlite.store import SqliteStore


class Alone:
    """The tenure of the only one."""

    def holds(self) -> bool:
        return True

    def shards(self) -> range:
        return ALL_SHARDS


def die() -> None:
    """End this process as a power cut would end it."""
    os.kill(os.getpid(), signal.SIGKILL)


async def publish(database: str, url: str, name: str, fault: str | None) -> None:
    store = SqliteStore(database)
    await store.migrate()
    clock = SystemClock()
    connection = Connection([url], clock)
    await connection.connect()
    stream = EventStream(JetStream(connection, clock), name=name, prefix=name)
    relay = Relay(store, stream, clock, tenure=Alone())
    if fault:
        setattr(relay, fault, die)
    await relay.finish(30)
    await connection.close()
    await store.close()


if __name__ == "__main__":
    asyncio.run(publish(*sys.argv[1:4], sys.argv[4] if len(sys.argv) > 4 else None))
