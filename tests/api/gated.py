"""A store that a test holds up, the calls that wait for it meanwhile, and what a refusal says."""

import asyncio
import json
from typing import Any

from duetime.stores import Store
from tests.api.client import Answer, timer_body

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


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


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
