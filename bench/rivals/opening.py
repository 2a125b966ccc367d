"""Opening: starts what the rivals need, and says which of them are left out, and why."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from bench.databases import opening
from bench.databases.postgres import PostgresSchemas
from bench.rivals import npm
from bench.rivals.bullmq import SERVER_SETTINGS, Bullmq
from bench.rivals.graphile_worker import GraphileWorker
from bench.rivals.rival import Rival
from bench.stage import Stage


@asynccontextmanager
async def opened(stage: Stage) -> AsyncIterator[list[Rival]]:
    """All rivals that can be measured here; none without Node.js."""
    rivals: list[Rival] = []
    async with AsyncExitStack() as stack:
        stage.progress.begin("w10 installing the rivals from npm")
        try:
            await npm.install()
        except npm.NoNode as error:
            stage.progress.say(f"The rivals are left out: {error}")
        else:
            for title, start in ((GraphileWorker.title, _graphile_worker), (Bullmq.title, _bullmq)):
                stage.progress.begin(f"w10 starting the database of {title}")
                try:
                    rivals.append(await start(stage, stack))
                except opening.NoServer as error:
                    stage.progress.say(f"{title} is left out: {error}")
        yield rivals


async def _graphile_worker(stage: Stage, stack: AsyncExitStack) -> Rival:
    """On the server of the run, if that is PostgreSQL."""
    databases = stage.databases
    if not isinstance(databases, PostgresSchemas):
        databases = await stack.enter_async_context(opening.opened("postgres", stage.data))
    assert isinstance(databases, PostgresSchemas)
    return GraphileWorker(databases)


async def _bullmq(stage: Stage, stack: AsyncExitStack) -> Rival:
    from tests.servers.kinds import KINDS  # noqa: PLC0415 - they come with the tests
    from tests.servers.unavailable import Unavailable  # noqa: PLC0415

    stage.data.chmod(0o755)  # the server may run as another user
    kind = KINDS["redis"]
    try:
        server = kind.server(kind.install(), within=stage.data, settings=SERVER_SETTINGS)
    except (Unavailable, RuntimeError) as error:
        raise opening.NoServer(f"no {kind.title} in {stage.data}: {error}") from error
    return Bullmq(stack.enter_context(server))
