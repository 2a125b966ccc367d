"""The copier: opens two databases, and has everything of one copied into the other."""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager

from duetime.cli.exits import Exit
from duetime.cli.interpreter import loop_factory
from duetime.cli.places import digest_of, place_of
from duetime.cli.progress import Progress
from duetime.clock import Millis, SystemClock
from duetime.errors import ConfigurationError, Conflict, InUse, StoreError, StoreUnavailable
from duetime.moving.checksum import Tally
from duetime.moving.copying import Copy
from duetime.stores import Store
from duetime.stores.opening import Options, open_store

AGAIN = "The same command goes on where this one stopped."


def run_copy(source: str, target: str, keep_lines_for: Millis | None) -> Exit:
    """Copy from one URL to another; tells how it went, and how to go on if it did not."""
    progress = Progress(SystemClock())
    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            copied = runner.run(_copy(source, target, keep_lines_for, progress))
    except KeyboardInterrupt:
        progress.say(AGAIN)
        return Exit.INTERRUPTED
    except Conflict as error:
        progress.say(f"duetime: {error}")
        return Exit.CONFLICT
    except (InUse, StoreError) as error:
        progress.say(f"duetime: {error}")
        progress.say(AGAIN)
        return Exit.FAILED
    finally:
        progress.end()
    print(copied)
    return Exit.OK


def summary(tally: Tally, dropped: int = 0) -> str:
    """What was copied, and that it was looked at again."""
    parts = (
        (tally.timers, "timer"),
        (tally.attempts, "attempt"),
        (tally.events, "event"),
        (tally.records, "record"),
        (tally.lines, "audit line"),
    )
    counts = ", ".join(f"{count:,} {noun}{'' if count == 1 else 's'}" for count, noun in parts)
    if dropped:
        return f"copied {counts}; some was dropped since; TO's checksum is {tally.checksum}"
    return f"copied {counts}; both sides have the same checksum {tally.checksum}"


async def _copy(source: str, target: str, keep_lines_for: Millis | None, progress: Progress) -> str:
    """What came of it, in a line."""
    place = place_of(source)
    if place == place_of(target):
        raise ConfigurationError("FROM and TO are the same database")
    async with AsyncExitStack() as stack:
        old = await _opened("FROM", source, Options(must_exist=True), stack)
        new = await _opened("TO", target, Options(), stack)
        copy = Copy(
            old,
            new,
            SystemClock(),
            progress,
            name=digest_of(place),
            keep_lines_for=keep_lines_for,
        )
        return summary(await copy.run(), copy.dropped)


async def _opened(side: str, url: str, options: Options, stack: AsyncExitStack) -> Store:
    """The store of one side, ready for use; what is wrong with it is told with its name."""
    with _named(side):
        store = open_store(url, options)
        if store.traits.nodes == "one process":
            raise ConfigurationError("what memory:// holds dies with its process")
        stack.push_async_callback(store.close)
        await store.migrate()
    return store


@contextmanager
def _named(side: str) -> Iterator[None]:
    try:
        yield
    except ConfigurationError as error:
        raise ConfigurationError(f"{side}: {error}") from error
    except StoreUnavailable as error:
        raise StoreUnavailable(f"{side}: {error}") from error
