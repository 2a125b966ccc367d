"""A client of the API that calls the app in this process, as an HTTP server would."""

import asyncio
import json
from collections.abc import Iterable
from typing import Any, NamedTuple
from urllib.parse import unquote, urlencode

from starlette.types import ASGIApp

from duetime import model
from duetime.service import Service
from duetime.stores import Change, Store
from duetime.testing import FakeClock, RecordingSender
from duetime.timer import Kind, Outcome, Timer

KEY = "a-key-for-the-tests-of-the-api-of-duetime"
NODE = "node-1"
OK = Outcome(kind=Kind.OK, status_code=200, latency_ms=12)
FAILED = Outcome(kind=Kind.HTTP, status_code=500, latency_ms=7, error="HTTP 500")


class Answer(NamedTuple):
    """What the app answered."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def envelope(self) -> dict[str, Any]:
        return json.loads(self.body)

    @property
    def code(self) -> int:
        return self.envelope["code"]

    @property
    def message(self) -> str:
        return self.envelope["message"]

    @property
    def data(self) -> Any:
        return self.envelope["data"]

    @property
    def summary(self) -> tuple[int, int, str]:
        """What an error is told apart by: status, code, message."""
        return self.status, self.code, self.message


async def call_app(
    app: ASGIApp,
    method: str,
    path: str,
    *,
    query: str = "",
    headers: Iterable[tuple[bytes, bytes]] = (),
    chunks: tuple[bytes, ...] = (b"",),
    hangs_up: asyncio.Event | None = None,
) -> Answer:
    """Make one request; the path is percent-encoded, as on the wire."""
    hung_up = hangs_up or asyncio.Event()
    messages = [
        {"type": "http.request", "body": chunk, "more_body": number < len(chunks)}
        for number, chunk in enumerate(chunks, 1)
    ]
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        if messages:
            return messages.pop(0)
        await hung_up.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": method,
        "path": unquote(path),
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": query.encode(),
        "headers": list(headers),
    }
    await app(scope, receive, send)
    start, *bodies = sent
    body = b"".join(message["body"] for message in bodies)
    received = {name.decode(): value.decode() for name, value in start["headers"]}
    assert int(received.get("content-length", len(body))) == len(body)
    return Answer(start["status"], received, body)


class Api:
    """The app with what lies below it, all within a test's reach."""

    def __init__(
        self, app: ASGIApp, service: Service, store: Store, clock: FakeClock, sender: Any
    ) -> None:
        self.app = app
        self.service = service
        self.store = store
        self.clock = clock
        self.sender: RecordingSender = sender

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        key: str | None = KEY,
        params: Any = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        """Make one request; a body that is not bytes is sent as JSON."""
        fields = {name.lower(): value for name, value in (headers or {}).items()}
        if key is not None:
            fields["x-api-key"] = key
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        content = b"" if body is None else content
        return await call_app(
            self.app,
            method,
            path,
            query=params if isinstance(params, str) else urlencode(params or {}),
            headers=[(name.encode(), value.encode()) for name, value in fields.items()],
            chunks=(content,),
        )

    async def make_key(self, tenant: str = "default", role: str = "admin", **fields: Any) -> str:
        """The text of a new key of a tenant, which is made if there is none."""
        if tenant != "default":
            made = await self.post("/tenants", {"name": tenant})
            assert made.status in {201, 409}, made
        answer = await self.post(
            f"/tenants/{tenant}/keys", {"name": f"{role} of {tenant}", "role": role, **fields}
        )
        assert answer.status == 201, answer
        return answer.data["key"]

    async def get(self, path: str, **params: Any) -> Answer:
        return await self.call("GET", path, params=params)

    async def post(self, path: str, body: Any = None, **headers: str) -> Answer:
        return await self.call("POST", path, body, headers=_dashed(headers))

    async def put(self, path: str, body: Any = None, **headers: str) -> Answer:
        return await self.call("PUT", path, body, headers=_dashed(headers))

    async def delete(self, path: str, **headers: str) -> Answer:
        return await self.call("DELETE", path, headers=_dashed(headers))

    async def create(self, **fields: Any) -> dict[str, Any]:
        """Create a timer that must be new, and give its data."""
        answer = await self.post("/timers", timer_body(**fields))
        assert answer.status == 201, answer
        return answer.data

    async def shown(self, id_: str) -> dict[str, Any]:
        """A timer with all its details."""
        answer = await self.get(f"/timers/{id_}")
        assert answer.status == 200, answer
        return answer.data

    # What the engine does

    async def claim(self, id_: str, node: str = NODE) -> Timer:
        """Begin a timer's next attempt."""
        [timer] = await self.store.get([id_])
        return await self._apply(timer, model.claim(timer, node, self.clock.now(), 10_000))

    async def finish(self, id_: str, outcome: Outcome = OK) -> Timer:
        """End the attempt that is under way."""
        [timer] = await self.store.get([id_])
        now = self.clock.now()
        done = model.finish(timer, outcome, now, 0.5)
        return await self._apply(timer, done, model.attempt_record(timer, done, outcome, now))

    async def bring_to(self, status: str, **fields: Any) -> dict[str, Any]:
        """A timer with this status."""
        made = await self.create(**fields)
        if status in {"executing", "completed", "failed"}:
            await self.claim(made["id"])
        if status in {"completed", "failed"}:
            await self.finish(made["id"], OK if status == "completed" else FAILED)
        if status == "canceled":
            await self.delete(f"/timers/{made['id']}")
        if status == "paused":
            await self.post(f"/timers/{made['id']}/pause")
        shown = await self.shown(made["id"])
        assert shown["status"] == status
        return shown

    async def _apply(self, old: Timer, new: Timer, attempt: Any = None) -> Timer:
        assert await self.store.apply([Change(old, new, attempt=attempt)]) == [True]
        return new


def timer_body(**fields: Any) -> dict[str, Any]:
    """A body to create a timer with; a test names what it is about."""
    body = {"delay": "1h", "callback": http_callback(), **fields}
    if "execute_at" in fields:
        del body["delay"]
    return body


def http_callback(**fields: Any) -> dict[str, Any]:
    """A callback that can be made."""
    return {"type": "http", "url": "https://api.example.com/webhook", **fields}


def _dashed(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}
