"""An impostor says what DynamoDB would say when it is busy or broken, which the real one is not."""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from duetime.stores.dynamodb.address import Address
from duetime.stores.dynamodb.signing import Credentials


class Say(NamedTuple):
    """One answer; no status at all means that the connection is closed instead."""

    status: int | None
    body: Any = None


def refusal(code: str, message: str = "", **more: Any) -> Say:
    """An answer that says no."""
    return Say(
        400, {"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": message, **more}
    )


OK = Say(200, {})


class Impostor:
    """Gives the answers that it was told, in turn, the last one for ever."""

    def __init__(self) -> None:
        self.answers: deque[Say] = deque([OK])
        self.heard: list[tuple[str, dict[str, str], Any]] = []  # operation, headers, arguments
        self.port = 0

    def will_say(self, *answers: Say) -> None:
        self.answers = deque(answers)

    @property
    def address(self) -> Address:
        return Address(
            region="local",
            table="table",
            endpoint=f"http://127.0.0.1:{self.port}",
            credentials=Credentials("key", "secret"),
        )

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                lines = head.decode().split("\r\n")[1:-2]
                fields = {k.lower(): v for k, _, v in (line.partition(": ") for line in lines)}
                body = await reader.readexactly(int(fields["content-length"]))
                operation = fields["x-amz-target"].partition(".")[2]
                self.heard.append((operation, fields, json.loads(body)))
                say = self.answers.popleft() if len(self.answers) > 1 else self.answers[0]
                if say.status is None:
                    break
                content = json.dumps(say.body).encode()
                writer.write(
                    f"HTTP/1.1 {say.status} X\r\ncontent-length: {len(content)}\r\n\r\n".encode()
                    + content
                )
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def impostor() -> AsyncIterator[Impostor]:
    """One that listens while the context lasts."""
    one = Impostor()
    server = await asyncio.start_server(one.serve, "127.0.0.1", 0)
    one.port = server.sockets[0].getsockname()[1]
    try:
        yield one
    finally:
        server.close()
