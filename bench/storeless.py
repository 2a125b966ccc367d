"""Duetime's API on a store that answers at once and keeps nothing: the ceiling of every create.

Routing, authentication, decoding, checking, the service and the answer are the real ones, and so
is the set-up of the interpreter.
"""

import sys
from collections.abc import Sequence

import uvloop

from duetime.api.app import create_app
from duetime.api.server import ApiServer, listen
from duetime.benching.requests import KEY
from duetime.cli.interpreter import tune
from duetime.clock import SystemClock
from duetime.delivery.egress import Egress
from duetime.delivery.http import HttpSender
from duetime.service import Service
from duetime.stores import Insert
from duetime.stores.memory import MemoryStore
from duetime.timer import Timer


class ForgetfulStore(MemoryStore):
    """Says that it has stored a timer, and forgets it."""

    async def insert(self, inserts: Sequence[Insert]) -> list[Timer | None]:
        return [None] * len(inserts)


async def serve(port: int) -> None:
    """Answer creates until ended."""
    tune()
    clock = SystemClock()
    service = Service(ForgetfulStore(), HttpSender(clock, Egress.parse("127.0.0.0/8")), clock)
    server = ApiServer(create_app(service, KEY), drain_for=1)
    await server.serve(sockets=[listen("127.0.0.1", port)])


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
