"""A service that answers as it is told to, on a real socket, in a thread of its own."""

import asyncio
import inspect
import json
import threading
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qsl, urlsplit

KEY = "test-key-of-at-least-thirty-two-characters"


class Request(NamedTuple):
    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def query(self) -> dict[str, str]:
        return dict(parse_qsl(urlsplit(self.target).query))

    @property
    def parameters(self) -> list[tuple[str, str]]:
        """The query with all that is repeated, in its order."""
        return parse_qsl(urlsplit(self.target).query, keep_blank_values=True)

    @property
    def json(self) -> Any:
        return json.loads(self.body)


# The status, the body, and headers if there are any. A body is bytes, or something to be put into
# JSON, or Pieces.
Answer = tuple[int, Any] | tuple[int, Any, dict[str, str]]


class Pieces(NamedTuple):
    """A body that comes piece by piece."""

    pieces: list[bytes]
    breaks_off: bool = False


def envelope(data: Any, code: int = 0, message: str = "success") -> dict[str, Any]:
    return {"code": code, "message": message, "data": data}


def ok(data: Any) -> Answer:
    return 200, envelope(data)


def refused(status: int, code: int, message: str, **headers: str) -> Answer:
    body = envelope(None, code, message)
    return status, body, {name.replace("_", "-"): value for name, value in headers.items()}


def lines(*pieces: bytes, breaks_off: bool = False) -> Answer:
    """An answer of lines of JSON."""
    return 200, Pieces(list(pieces), breaks_off), {"Content-Type": "application/x-ndjson"}


class FakeService:
    """Keeps every request; ``answer`` decides what each gets, or comes to know it later.

    None: no answer, ever.
    """

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.answer: Callable[[Request], Answer | Awaitable[Answer] | None] = lambda _: ok({})
        self.asked = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._listening = threading.Event()
        self._stop = asyncio.Event()
        self.url = ""

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._listening.wait(10)
        return self

    def __exit__(self, *error: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        self.url = f"http://{host}:{port}"
        self._listening.set()
        await self._stop.wait()
        server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                request = await _read(head, reader)
                self.requests.append(request)
                self.asked.set()
                answer = self.answer(request)
                if inspect.isawaitable(answer):
                    answer = await answer
                if answer is None:
                    await asyncio.sleep(3600)
                else:
                    writer.write(_response(*answer))
                    await writer.drain()
                    if isinstance(answer[1], Pieces) and answer[1].breaks_off:
                        return
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            pass
        finally:
            writer.close()


async def _read(head: bytes, reader: asyncio.StreamReader) -> Request:
    first, *lines = head.decode("latin-1").strip().split("\r\n")
    method, target, _ = first.split(" ")
    headers = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Request(method, target, headers, body)


def _response(status: int, body: Any, headers: dict[str, str] | None = None) -> bytes:
    head = f"HTTP/1.1 {status} Whatever\r\n"
    head += "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
    if isinstance(body, Pieces):
        head += "Transfer-Encoding: chunked\r\n\r\n"
        chunks = b"".join(b"%x\r\n%b\r\n" % (len(each), each) for each in body.pieces)
        return head.encode() + chunks + (b"" if body.breaks_off else b"0\r\n\r\n")
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content
