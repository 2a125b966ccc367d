"""A node that is killed right after it has stored a create, before it can acknowledge it."""

import asyncio
import os
import signal
import sys
from pathlib import Path

from duetime.clock import SystemClock
from duetime.commands.desk import Desk
from duetime.commands.prefixes import prefixes
from duetime.commands.queue import Queue
from duetime.nats.connection import Connection
from duetime.nats.jetstream import JetStream
from duetime.service import Service
from duetime.stores.sqlite.store import SqliteStore
from duetime.testing import RecordingSender
from tests.api.client import KEY


async def main(file: str, url: str, prefix: str, stream: str) -> None:
    clock = SystemClock()
    store = SqliteStore(Path(file))
    await store.migrate()
    connection = Connection([url], clock)
    await connection.connect()
    queue = Queue(
        connection,
        JetStream(connection, clock),
        Desk(Service(store, RecordingSender(), clock), KEY, trusts="keys", max_body=1 << 20),
        clock,
        stream=stream,
        prefixes=prefixes(prefix, ()),
        when_stored=lambda: os.kill(os.getpid(), signal.SIGKILL),
    )
    while True:
        await queue.step()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
