"""A server that crashes in the middle of a copy."""

import pytest

from duetime.clock import SystemClock
from duetime.moving.copying import LINES, Copy
from duetime.stores.opening import open_store
from tests.moving.houses import Listening, furnished, holdings, inhabited

QUESTIONS = {"insert", "scan", "records", "put_record", "write_lines", "lines"}


class Falling:
    """A store whose server dies right before it is asked the next thing, once it is told to.

    Nothing else happens in between: so the question goes to a connection that is dead.
    """

    def __init__(self, store, server):
        self.store = store
        self.server = server
        self.is_to_fall = False

    def __getattr__(self, name):
        if name in QUESTIONS and self.is_to_fall:
            self.is_to_fall = False
            self.server.crash()
            self.server.start()
        return getattr(self.store, name)


@pytest.mark.slow
@pytest.mark.parametrize("moment", [(500, "timers"), (1_000, LINES)], ids=["timers", "lines"])
@pytest.mark.parametrize("task", ["copied", "compared"])
async def test_a_target_that_crashes_is_waited_for(own_postgres, tmp_path, task, moment):
    """Its connections break, and once it is back the copy goes on to its end."""
    server = own_postgres("postgres-18")
    source, target = open_store(f"sqlite:///{tmp_path}/from.db"), open_store(server.url())
    falling = Falling(target, server)

    class Watching(Listening):
        def at(self, now, count, things="timers"):
            falling.is_to_fall = (now, (count, things)) == (task, moment)

    try:
        for store in (source, target):
            await store.migrate()
        await furnished(source, 1_500)
        await inhabited(source, 1_200)
        onlooker = Watching()
        tally = await Copy(source, falling, SystemClock(), onlooker, name="here").run()
        assert (tally.timers, tally.lines) == (1_500, 3_600)
        assert any(said.startswith("TO: ") and "trying again" in said for said in onlooker.said)
        assert await holdings(target) == await holdings(source)
    finally:
        for store in (source, target):
            await store.close()
