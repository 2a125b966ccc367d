"""An engine that is behind: creates that are due soon are slowed, then refused."""

import asyncio

from duetime.stores import Store
from duetime.stores.memory import MemoryStore
from duetime.testing import FakeClock
from tests.api.client import timer_body
from tests.api.conftest import MakeApi
from tests.api.gated import settle, started


class Lagging:
    """An engine that is as far behind as a test says."""

    def __init__(self) -> None:
        self.behind = 0

    def notice(self, timer):
        pass

    def lag(self) -> int:
        return self.behind


async def test_engine_behind_slows_and_refuses(make_api: MakeApi, store: Store, clock: FakeClock):
    """The further behind, the longer creates that are due now wait; beyond a mark they are 503."""
    engine = Lagging()
    api = make_api(store, engine=engine)
    soon, later = timer_body(delay="1s"), timer_body(delay="1h")
    assert (await api.post("/timers", soon)).status == 201
    assert (await api.put("/groups/g/timers/old", later)).status == 201
    engine.behind = 4_000
    [slowed] = await started(api.post("/timers", soon))
    clock.advance(399)
    await settle()
    assert not slowed.done()
    clock.advance(1)
    assert (await slowed).status == 201
    engine.behind = 12_300
    why = "this node is 12 s behind"
    for answer in (
        await api.post("/timers", soon),
        await api.post("/timers/batch", {"timers": [later, soon]}),
        await api.put("/groups/g/timers/new", soon),
        await api.put("/groups/g/timers/old", soon),
    ):
        assert (answer.status, answer.code) == (503, 9)
        assert answer.message.startswith(why)
        assert "nothing was written, try again" in answer.message
        assert answer.headers["retry-after"] == "1"
    made = await api.post("/timers", later)
    assert made.status == 201
    assert (await api.post("/timers/batch", {"timers": [later]})).data["created"] == 1
    assert (await api.post(f"/timers/{made.data['id']}/fire")).status == 200
    assert (await api.delete(f"/timers/{made.data['id']}")).status == 200
    engine.behind = 0
    assert (await api.post("/timers", soon)).status == 201


async def test_few_are_slowed_at_once(make_api: MakeApi, monkeypatch, clock: FakeClock):
    """Those that wait for the engine are bounded too."""
    monkeypatch.setattr("duetime.brake.MOST_SLOWED", 2)
    engine = Lagging()
    engine.behind = 2_000
    api = make_api(MemoryStore(), engine=engine)
    slowed = await started(*(api.post("/timers", timer_body(delay="0s")) for _ in range(2)))
    assert (await api.post("/timers", timer_body(delay="0s"))).status == 503
    for _ in range(2):
        clock.advance(200)
        assert [answer.status for answer in await asyncio.gather(*slowed)] == [201, 201]
        slowed = await started(*(api.post("/timers", timer_body(delay="0s")) for _ in range(2)))
