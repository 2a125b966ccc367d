"""A real `duetime serve` as a child process, on a free port and a file of its own."""

import asyncio
import http.client
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.outputs import OUTPUTS
from tests.ports import free_port
from tests.waiting import PATIENCE, eventually

API_KEY = "a-key-for-the-system-tests-of-duetime"
COMMAND = Path(sys.executable).with_name("duetime")


class Answer(NamedTuple):
    """What the service answered."""

    status: int
    headers: dict[str, str]  # by lower-case name
    body: bytes

    @property
    def envelope(self) -> dict[str, Any]:
        return json.loads(self.body)

    @property
    def data(self) -> Any:
        return self.envelope["data"]


class ServiceProcess:
    """One node. It can be started again on the same file and port after it was stopped."""

    def __init__(self, folder: Path, port: int | None = None, **settings: str) -> None:
        self.folder = folder
        self.port = port or free_port()
        self.database = folder / "duetime.db"
        self.log = folder / f"duetime-{self.port}.log"
        self._settings = settings
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int:
        return self._running().pid

    async def start(self) -> None:
        """Start it, and return once it is ready."""
        environment = self._environment()
        OUTPUTS.keep_settings(environment)
        OUTPUTS.watch(self.log)
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                COMMAND,
                "serve",
                cwd=self.folder,  # where no .env lies
                env=environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
            )
        await eventually(self._is_ready, f"{self.log} to say that it is ready")

    async def stop(self) -> int:
        """Ask it to stop, and return its exit code."""
        return await self._end(signal.SIGTERM)

    async def kill(self) -> None:
        """End it at once, as a power cut would end it: kill -9."""
        await self._end(signal.SIGKILL)

    async def ended(self) -> int:
        """Wait until it ends by itself, and return its exit code."""
        async with asyncio.timeout(PATIENCE):
            code = await self._running().wait()
        self._process = None
        return code

    async def call(
        self, method: str, path: str, body: Any = None, *, key: str | None = API_KEY, **headers: str
    ) -> Answer:
        """Make one request. Names of headers have `_` for `-`."""
        answer = await asyncio.to_thread(self._call, method, path, body, key, headers)
        is_json = answer.headers.get("content-type") == "application/json" and answer.body
        OUTPUTS.keep_exchanged(key, body, answer.envelope if is_json else None)
        return answer

    def _call(
        self, method: str, path: str, body: Any, key: str | None, headers: dict[str, str]
    ) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if key is not None:
            sent["X-API-Key"] = key
        content = None
        if body is not None:
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            sent.setdefault("Content-Type", "application/json")
        try:
            connection.request(method, path, content, sent)
            answer = connection.getresponse()
            received = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, received, answer.read())
        finally:
            connection.close()

    async def _is_ready(self) -> bool:
        if self._running().returncode is not None:
            raise AssertionError(f"it ended while starting:\n{self.log.read_text()}")
        try:
            return (await self.call("GET", "/readyz")).status == 200
        except OSError:
            return False

    async def _end(self, number: signal.Signals) -> int:
        process = self._running()
        if process.returncode is None:
            process.send_signal(number)
        return await self.ended()

    async def end_if_running(self) -> None:
        """Leave nothing behind, however a test ended."""
        if self._process is not None:
            await self.kill()

    def _running(self) -> asyncio.subprocess.Process:
        assert self._process is not None, "it was not started"
        return self._process

    def _environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "API_KEY": API_KEY,
            "HOST": "127.0.0.1",
            "PORT": str(self.port),
            "DATABASE_URL": f"sqlite:///{self.database}",
            "EGRESS_ALLOW": "127.0.0.0/8",
            **self._settings,
        }


@asynccontextmanager
async def running_service(folder: Path, **settings: str) -> AsyncIterator[ServiceProcess]:
    """A service that is ready; it must stop cleanly, unless the test ended it already."""
    service = ServiceProcess(folder, **settings)
    try:
        await service.start()
        yield service
        if service._process is not None:
            assert await service.stop() == 0, service.log.read_text()
    finally:
        await service.end_if_running()
