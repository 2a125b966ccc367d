"""A rival: where its jobs are kept, and the two scripts that make them and work them off."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import msgspec

from bench.rivals import npm
from duetime.benching.process import Process, started


class RivalFailed(Exception):
    """A rival lost a job, did one twice, or ended: nothing can be compared with it."""


class Place(msgspec.Struct, frozen=True):
    """Where jobs are kept that nobody else sees."""

    url: str
    schema: str = ""


class Made(msgspec.Struct):
    """What a producer tells when it is done."""

    seconds: float
    made: int
    stored: int  # jobs that are not done yet
    due_ms: int = 0  # where all are due at one instant
    in_time: bool = True  # they were made before that


class Rival(ABC):
    """A program beside which Duetime is measured."""

    package: str  # at npm; its scripts are in the folder of that name
    title: str

    @property
    def name(self) -> str:
        """With the version that is measured."""
        return f"{self.title} {npm.versions()[self.package]}"

    @property
    @abstractmethod
    def is_metered(self) -> bool:
        """Tell whether what its database uses of the processors can be seen."""

    @abstractmethod
    def cpu_seconds(self) -> float | None:
        """What its database's processes have used so far."""

    @abstractmethod
    def fresh(self) -> AbstractAsyncContextManager[Place]:
        """A place without jobs, which is gone afterwards."""

    @asynccontextmanager
    async def working(self, place: Place, sink_port: int) -> AsyncIterator[Process]:
        """Run a worker."""
        script, env = self._script("work"), _environment(place, sink_port)
        async with started([script], env, program=npm.node()) as process:
            if (await process.line()).strip() != "ready":
                raise RivalFailed(f"{self.name}: its worker did not start")
            yield process

    async def produce(self, place: Place, sink_port: int, verb: str, *numbers: int) -> Made:
        """Do what ``producing.mjs`` calls so."""
        arguments = [self._script("produce"), verb, *map(str, numbers)]
        async with started(
            arguments, _environment(place, sink_port), program=npm.node()
        ) as process:
            told = await process.line()
            try:
                return msgspec.json.decode(told, type=Made)
            except msgspec.MsgspecError as error:
                raise RivalFailed(f"{self.name}: its producer ended before its time") from error

    def _script(self, name: str) -> str:
        return str(npm.FOLDER / self.package / f"{name}.mjs")


def _environment(place: Place, sink_port: int) -> Mapping[str, str]:
    return {
        "NODE_ENV": "production",
        "RIVAL_URL": place.url,
        "RIVAL_SCHEMA": place.schema,
        "SINK_PORT": str(sink_port),
    }
