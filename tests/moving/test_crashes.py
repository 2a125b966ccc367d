"""A server that crashes in the middle of a copy."""

import pytest

from duetime.clock import SystemClock
from duetime.moving.copying import Copy
from duetime.stores.opening import open_store
from tests.moving.houses import Listening, furnished, holdings


@pytest.mark.slow
@pytest.mark.parametrize("task", ["copied", "compared"])
async def test_a_target_that_crashes_is_waited_for(own_postgres, tmp_path, task):
    """Its connections break, and once it is back the copy goes on to its end."""
    server = own_postgres("postgres-18")
    stores = [open_store(f"sqlite:///{tmp_path}/from.db"), open_store(server.url())]

    class Crashing(Listening):
        def at(self, now, timers):
            if (now, timers) == (task, 500):
                server.crash()
                server.start()

    try:
        for store in stores:
            await store.migrate()
        await furnished(stores[0], 1_500)
        onlooker = Crashing()
        tally = await Copy(*stores, SystemClock(), onlooker, name="here").run()
        assert tally.timers == 1_500
        assert any(said.startswith("TO: ") and "trying again" in said for said in onlooker.said)
        assert await holdings(stores[1]) == await holdings(stores[0])
    finally:
        for store in stores:
            await store.close()
