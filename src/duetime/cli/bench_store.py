"""The database of `duetime bench`: a file that is gone afterwards, or one that is left empty."""

import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from msgspec.structs import replace

from duetime import ids
from duetime.benching.machine import Disk, disk_of, is_memory
from duetime.cli.database_file import file_of
from duetime.cli.storage import opened
from duetime.clock import Clock
from duetime.config import Settings, without_password
from duetime.errors import ConfigurationError, InUse
from duetime.layout import KIND as LAYOUT
from duetime.moving.contents import ACTIONS, INHABITANTS
from duetime.moving.patience import Patience
from duetime.moving.stillness import Stillness
from duetime.stores import Store
from duetime.stores.opening import kind_of
from duetime.timer import DEFAULT_TENANT, HttpCallback, Status, Timer

PART = 500  # timers that are read, and removed, at once
LINES_PART = 5_000
NAME_ANOTHER = "name an empty database or schema"


@contextmanager
def fresh_file(settings: Settings) -> Iterator[Settings]:
    """The same settings, on a file in a temporary folder on the disk where the database would be.

    The folder is gone afterwards.
    """
    beside = folder_beside(settings.database_url)
    try:
        folder = Path(tempfile.mkdtemp(prefix="duetime-bench-", dir=beside))
    except OSError as error:
        raise ConfigurationError(
            f"no folder can be made in {beside} ({error.strerror}): name another place by "
            "DATABASE_URL, or a database by --store"
        ) from error
    try:
        yield replace(settings, database_url=f"sqlite:///{folder / 'bench.db'}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def folder_beside(database_url: str) -> Path:
    """The folder where the database would be, or the nearest that is there."""
    file = file_of(database_url.partition("?")[0])
    folder = (file.parent if file else Path()).absolute()
    while not folder.is_dir():
        folder = folder.parent
    return folder


def described(settings: Settings) -> str:
    """The store, and on which disk it is if that is known."""
    url = without_password(settings.database_url)
    file = file_of(url.partition("?")[0])
    if file is None:
        return url
    disk = disk_of(file.parent)
    if is_memory(disk):
        return f"SQLite in {file.parent}, which is memory ({disk.kind}) and no disk"
    known = "" if disk == Disk("?", "?") else f" on {disk.device} ({disk.kind})"
    return f"SQLite, synchronous={settings.sqlite_synchronous},{known or ' on this disk'}"


def waits_for(settings: Settings) -> str:
    """What a store waits for when it is slow."""
    return "its disk" if file_of(settings.database_url.partition("?")[0]) else "its server"


@asynccontextmanager
async def borrowed(
    settings: Settings, clock: Clock, say: Callable[[str], None]
) -> AsyncIterator[None]:
    """Somebody's own database: refused unless it is empty and nobody uses it; emptied again."""
    _check_can_be_shared(settings)
    async with opened(settings) as store:
        await _check_empty(store)
        await _check_still(store, clock, say)
        had_layout = bool(await store.records(LAYOUT))
        had_lines = bool(await store.lines(DEFAULT_TENANT, None, 1, descending=False))
    try:
        yield
    finally:
        say("removing what was made")
        async with opened(settings) as store:
            await _empty(store, settings)
            if not had_lines:
                while await store.drop_lines(clock.now() + 1, LINES_PART):
                    pass
            if not had_layout:
                for record in await store.records(LAYOUT):
                    await store.put_record(record, None)


async def left(settings: Settings) -> dict[Status, int]:
    """How many timers of each status there are when the node has ended."""
    found: dict[Status, int] = {}
    async with opened(settings) as store:
        for count in await store.count(DEFAULT_TENANT):
            found[count.status] = found.get(count.status, 0) + count.timers
    return found


def _check_can_be_shared(settings: Settings) -> None:
    if kind_of(settings.database_url).traits.nodes == "one process":
        raise ConfigurationError("--store: what memory:// holds dies with its process")


async def _check_empty(store: Store) -> None:
    if await store.scan(None, 1):
        raise ConfigurationError(f"--store: there are timers in this database: {NAME_ANOTHER}")
    for kind in (*INHABITANTS, ACTIONS):
        if await store.records(kind):
            raise ConfigurationError(
                f"--store: this database is in use, there is a {kind} in it: {NAME_ANOTHER}"
            )


async def _check_still(store: Store, clock: Clock, say: Callable[[str], None]) -> None:
    nodes = Stillness("--store", store, clock, Patience("--store", clock, say))
    try:
        if seconds := await nodes.begin():
            say(f"there are records of nodes: watching for {seconds:g} s whether they run")
            await nodes.watch(seconds)
    except InUse as error:
        raise ConfigurationError(f"{error}; or {NAME_ANOTHER}") from error


async def _empty(store: Store, settings: Settings) -> None:
    """Remove what a benchmark has made; what somebody else has made meanwhile stays."""
    after: str | None = None
    while part := await store.scan(after, PART):
        after = part[-1].id
        await store.remove([timer for timer in part if _is_ours(timer)])
    if settings.outbox == "on":
        while events := await store.events(ids.ALL_SHARDS, None, PART):
            await store.published([event.id for event in events])


def _is_ours(timer: Timer) -> bool:
    callback = timer.spec.callback
    return isinstance(callback, HttpCallback) and callback.url.startswith("http://127.0.0.1:")
