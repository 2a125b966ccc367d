"""Somebody who listens to /events: an app's answer as it comes in, bit by bit."""

import asyncio
import json
import time
from typing import Any, NamedTuple
from urllib.parse import urlencode

from tests.api.client import KEY, Api
from tests.waiting import PATIENCE, settle


class Sse(NamedTuple):
    """One event of a stream of Server-Sent Events; a comment has no type."""

    type: str | None
    id: str | None
    data: Any
    comment: str | None = None


def parse(text: str) -> list[Sse]:
    """What a stream has said so far."""
    said = []
    for block in text.split("\n\n")[:-1]:
        fields: dict[str, str] = {}
        for line in block.split("\n"):
            name, _, value = line.partition(": ")
            fields[name] = value
        data = json.loads(fields["data"]) if "data" in fields else None
        said.append(Sse(fields.get("event"), fields.get("id"), data, fields.get("")))
    return said


class Listening:
    """A request that goes on."""

    def __init__(self, api: Api, *, key: str = KEY, headers=None, method="GET", **params) -> None:
        self._api = api
        self._sent: list[dict] = []
        self.hangs_up = asyncio.Event()
        self.may_send = asyncio.Event()
        self.may_send.set()
        self.was_aborted = False
        fields = {"x-api-key": key, **(headers or {})}
        self._scope = {
            "type": "http",
            "method": method,
            "path": "/events",
            "raw_path": b"/events",
            "root_path": "",
            "query_string": urlencode(params, doseq=True).encode(),
            "headers": [(name.encode(), value.encode()) for name, value in fields.items()],
            "abort": self._abort,
        }
        self._asked = [{"type": "http.request", "body": b"", "more_body": False}]
        self.task = asyncio.create_task(api.app(self._scope, self._receive, self._send))

    def _abort(self) -> None:
        self.was_aborted = True
        self.hangs_up.set()

    async def _receive(self) -> dict:
        if self._asked:
            return self._asked.pop()
        await self.hangs_up.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: dict) -> None:
        await self.may_send.wait()
        self._sent.append(message)

    @property
    def status(self) -> int:
        return self._sent[0]["status"]

    @property
    def headers(self) -> dict[str, str]:
        return {name.decode(): value.decode() for name, value in self._sent[0]["headers"]}

    @property
    def body(self) -> bytes:
        return b"".join(message["body"] for message in self._sent[1:])

    @property
    def is_over(self) -> bool:
        return self.task.done() and not self._sent[-1].get("more_body", False)

    @property
    def said(self) -> list[Sse]:
        return parse(self.body.decode())

    @property
    def events(self) -> list[Sse]:
        return [each for each in self.said if each.data is not None]

    @property
    def types(self) -> list[str]:
        return [each.type for each in self.events]

    @property
    def last_id(self) -> str:
        return [each.id for each in self.said if each.id][-1]

    async def hear(self, seconds: float = 1.0) -> "Listening":
        """Let time pass."""
        for _ in range(round(seconds * 20)):
            await settle()
            self._api.clock.advance(50)
        await settle()
        return self

    async def heard(self, count: int) -> "Listening":
        """Let time pass until so many events have come; the store may take real time for it."""
        give_up_at = time.monotonic() + PATIENCE
        while len(self.events) < count:
            assert time.monotonic() < give_up_at, f"waited for {count} events"
            await asyncio.sleep(0.001)
            await self.hear(0.05)
        return await self.hear()

    async def stop(self) -> None:
        self.hangs_up.set()
        self.may_send.set()
        await asyncio.wait({self.task}, timeout=5)
        assert self.task.done()
