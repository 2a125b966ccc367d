"""A token endpoint on a real socket, which misbehaves on demand."""

import asyncio
import json
from typing import Any, Self
from urllib.parse import parse_qs

from tests.delivery.receiver import Request

Answer = tuple[int, Any] | None  # the status and the body, bytes or JSON; None: no answer, ever


class TokenEndpoint:
    """Hands out a token after the other, unless ``answers`` has something else for a request."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.asked = asyncio.Event()
        self.answers: list[Answer] = []
        self.gate: asyncio.Event | None = None  # nothing is answered before it is set
        self.lasts: Any = 3600
        self.headers = ""

    async def __aenter__(self) -> Self:
        self._tasks: set[asyncio.Task[None]] = set()
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/token"

    @property
    def form(self) -> dict[str, list[str]]:
        """What the last request has asked for."""
        return parse_qs(self.requests[-1].body.decode(), strict_parsing=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._tasks.add(asyncio.create_task(self._serve(reader, writer)))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(Request(head, b"").headers["content-length"])
                self.requests.append(Request(head, await reader.readexactly(length)))
                self.asked.set()
                if self.gate is not None:
                    await self.gate.wait()
                await self._answer(writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answer(self, writer: asyncio.StreamWriter) -> None:
        token = {"access_token": f"token-{len(self.requests)}", "token_type": "Bearer"}
        usual = 200, token | ({} if self.lasts is None else {"expires_in": self.lasts})
        answer = self.answers.pop(0) if self.answers else usual
        if answer is None:
            await asyncio.Event().wait()
            return
        status, content = answer
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        head = f"HTTP/1.1 {status} Whatever\r\n{self.headers}Content-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()
