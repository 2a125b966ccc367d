"""A store that a test holds up, the calls that wait for it meanwhile, and what a refusal says."""

import asyncio
import json
from typing import Any

from duetime.stores import Store
from tests.api.client import Answer, Api, timer_body
from tests.waiting import settle

BODY = json.dumps(timer_body()).encode()


class GatedStore:
    """A store of which some calls wait until a test lets them."""

    def __init__(self, store: Store, *names: str) -> None:
        self.store = store
        self.names = set(names)
        self.gate = asyncio.Event()
        self.begun = asyncio.Semaphore(0)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.store, name)
        if name not in self.names:
            return method

        async def call(*args: Any) -> Any:
            self.begun.release()
            await self.gate.wait()
            return await method(*args)

        return call


def late_bodies(api: Api, sent: asyncio.Event) -> Api:
    """The same API, to which requests send their bodies only when a test lets them."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        async def late() -> Any:
            await sent.wait()
            return await receive()

        await api.app(scope, late, send)

    return Api(app, api.service, api.store, api.clock, api.sender)


async def started(*calls: Any) -> list[asyncio.Task[Answer]]:
    tasks = [asyncio.create_task(call) for call in calls]
    await settle()
    return tasks


def assert_refused(answer: Answer, why: str = "the database is too slow") -> None:
    assert (answer.status, answer.code, answer.data) == (503, 9, None)
    assert answer.message.startswith(why)
    assert answer.message.endswith("nothing was written, try again")
    assert answer.headers["retry-after"] == "1"


def seconds(length: float) -> int:
    return int(length * 1000)
