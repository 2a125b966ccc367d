"""A DynamoDB Local server, and the tables that tests have on it."""

import asyncio
import json
import urllib.request
import uuid
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, quote, urlencode, urlsplit

from tests.servers import eatmydata
from tests.servers.java import JavaInstall
from tests.servers.kept import folder_within_reach
from tests.servers.server import Server

VERSION = "2.6.1"
REGION = "local"
_MAIN = "com.amazonaws.services.dynamodbv2.local.main.ServerRunner"
_HEAP = ["-Xms32m", "-Xmx384m", "-XX:+UseSerialGC"]
SECRET = "the-secret-of-the-local-tables"
_SHORT_LIVED = ["-XX:TieredStopAtLevel=1"]


class DynamoInstall(NamedTuple):
    """The program, and what keeps it from waiting for the disk."""

    program: JavaInstall
    unsynced: Path


def dynamodb_local() -> DynamoInstall:
    """DynamoDB Local, from its makers."""
    program = JavaInstall.fetched(f"com.amazonaws:DynamoDBLocal:{VERSION}")
    return DynamoInstall(program, eatmydata.fetched())


class DynamoServer(Server):
    """A DynamoDB Local server. It listens on all interfaces: it cannot be told not to.

    Each write is a commit of SQLite's. Without ``fsync`` it is many times quicker and survives a
    crash of its own, but not one of the machine. In memory it is quicker still, and survives none.
    """

    name = "dynamodb"
    version = VERSION

    def __init__(
        self,
        install: DynamoInstall,
        *,
        fsync: bool = False,
        in_memory: bool = False,
        is_long_lived: bool = False,
        within: Path | None = None,
    ) -> None:
        self._install, self._unsynced = install
        self._is_synced = fsync
        self._is_in_memory = in_memory
        self._compiler = [] if is_long_lived else _SHORT_LIVED
        super().__init__(within=within)

    def url(self, table: str = "", **query: str) -> str:
        """Where to reach it; it takes any credentials."""
        options = {"endpoint": f"http://127.0.0.1:{self.port}", **query}
        return f"dynamodb://local:{SECRET}@{REGION}/{table}?{urlencode(options)}"

    def set_up(self) -> None:
        self._install = self._install.within_reach(self._account, self.folder)
        folder = folder_within_reach(self._unsynced.parent, self._account, self.folder)
        self._unsynced = folder / self._unsynced.name
        data = self.folder / "data"
        data.mkdir()
        self._account.own(data)

    def command(self) -> list[str | Path]:
        libraries = self._install.jars
        return [
            self._install.java.program("java"),
            *_HEAP,
            *self._compiler,
            f"-Djava.library.path={libraries}",
            "-cp",
            f"{libraries}/*",
            _MAIN,
            *("-port", str(self.port)),
            *(["-inMemory"] if self._is_in_memory else ["-dbPath", self.folder / "data"]),
            "-sharedDb",
            "-disableTelemetry",
        ]

    def environment(self) -> dict[str, str]:
        quick = {} if self._is_synced else {"LD_PRELOAD": str(self._unsynced)}
        return {**self._install.java.environment, **quick}


async def make_table(url: str) -> str:
    """Name a table of a server that nobody else has, and return the URL of a store in it.

    The store makes the table when it is migrated.
    """
    return url.replace("/?", f"/test_{uuid.uuid4().hex}?", 1)


async def drop_table(url: str) -> None:
    """Drop what was made in the table that ``make_table`` named."""
    await ask(url, "DeleteTable", missing_ok=True)


async def ask(
    url: str, operation: str, *, missing_ok: bool = False, within: float = 60.0, **arguments: Any
) -> Any:
    """Ask the server at the URL of a store to do something with its table."""
    parts = urlsplit(url)
    [endpoint] = parse_qs(parts.query)["endpoint"]
    table = {"TableName": quote(name)} if (name := parts.path.strip("/")) else {}
    request = urllib.request.Request(
        endpoint,
        json.dumps({**table, **arguments}).encode(),
        {
            "content-type": "application/x-amz-json-1.0",
            "x-amz-target": f"DynamoDB_20120810.{operation}",
            # It takes any signature, but wants to see one.
            "authorization": f"AWS4-HMAC-SHA256 Credential=local/20260101/{REGION}/dynamodb/"
            "aws4_request, SignedHeaders=host, Signature=0",
        },
    )
    return await asyncio.to_thread(_answer, request, within, missing_ok=missing_ok)


def _answer(request: urllib.request.Request, within: float, *, missing_ok: bool) -> Any:
    try:
        with urllib.request.urlopen(request, timeout=within) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        said = error.read().decode(errors="replace")
        if missing_ok and "ResourceNotFoundException" in said:
            return None
        raise RuntimeError(f"DynamoDB Local: {said}") from error
