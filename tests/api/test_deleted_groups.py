"""Groups that are deleted: all of it or nothing, whoever makes timers in them, whatever crashes."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from duetime import model
from duetime.stores import Change, Page, Query
from duetime.stores.memory import MemoryStore
from duetime.tenancy.obedience import LONGEST
from duetime.testing import FlakyStore
from duetime.timer import Status, Timer
from tests.api.client import Answer, Api, timer_body
from tests.api.gated import GatedStore
from tests.api.test_deleted_tenants import Meddling, OtherNode, looked
from tests.bulk.desk import Crash, CrashingStore
from tests.factories import insert, make_timer
from tests.waiting import settle

SETTINGS = {
    "title": "mine",
    "timeout": "5s",
    "retention": "7d",
    "quotas": {"pending": 10},
    "on_resume": "none",
}
TO_COME = "group: 1 of its timers are still to come; cancel=true cancels them"
STOPPED = (
    "group: somebody makes a timer in it just now, or is deleting it as well; look at it again"
)


async def make_group(api: Api) -> dict[str, Any]:
    """A group with settings of its own, that is paused, as it is shown."""
    assert (await api.put("/groups/g", SETTINGS)).status == 201
    assert (await api.post("/groups/g/pause")).status == 200
    return (await api.get("/groups/g")).data


async def create(api: Api, way: str = "alone") -> str:
    """The id of a timer that is made in it."""
    body = timer_body(group="g", timer_id="k")
    if way == "in a batch":
        answer = await api.post("/timers/batch", {"timers": [body]})
        return answer.data["timers"][0]["data"]["id"]
    if way == "by its key":
        answer = await api.put("/groups/g/timers/k", timer_body())
    else:
        answer = await api.post("/timers", body)
    assert answer.status == 201, answer
    return answer.data["id"]


async def deleting(api: Api) -> asyncio.Task[Answer]:
    """A deletion that waits until the other nodes know of it."""
    task = asyncio.create_task(api.delete("/groups/g"))
    await settle()
    assert not task.done()
    return task


async def confirmed(api: Api, node: OtherNode, task: asyncio.Task[Answer]) -> Answer:
    """What a deletion is answered with when another node has confirmed all that it is asked."""
    for _ in range(2):
        await node.beat()
        await looked(api)
    assert task.done()
    return await task


async def test_nothing_comes_in_between(quick_api: Api, make_api):
    """When every node knows of it, the group is gone on each of them."""
    api, there = quick_api, make_api(quick_api.store)
    await make_group(api)
    node = OtherNode(there)
    await node.beat()
    assert (await confirmed(api, node, await deleting(api))).status == 200
    for each in (api, there):
        assert (await each.get("/groups/g")).status == 404
        assert (await each.get("/groups")).data["groups"][0]["name"] == "default"


@pytest.mark.parametrize("way", ["alone", "in a batch", "by its key"])
async def test_a_timer_that_a_node_makes_which_knows_of_it(quick_api: Api, make_api, way: str):
    """The deletion is refused, and the group is as it was, its pause and its quotas too."""
    api, there = quick_api, make_api(quick_api.store)
    shown = await make_group(api)
    node = OtherNode(there)
    await node.beat()
    task = await deleting(api)
    await there.service.rules.look()
    made = await create(there, way)
    assert (await confirmed(api, node, task)).summary == (409, 5, TO_COME)
    assert (await api.get("/groups/g")).data == shown
    assert (await api.delete(f"/timers/{made}")).status == 200
    assert (await confirmed(api, node, await deleting(api))).status == 200


async def test_a_timer_that_a_node_makes_which_does_not_know_of_it(quick_api: Api, make_api):
    """It is counted when that node has confirmed, and the group is as it was."""
    api, there = quick_api, make_api(quick_api.store)
    shown = await make_group(api)
    node = OtherNode(there)
    await node.beat()
    task = await deleting(api)
    await create(there)
    assert (await confirmed(api, node, task)).summary == (409, 5, TO_COME)
    assert (await api.get("/groups/g")).data == shown


class Moving(FlakyStore):
    """A store in which a timer moves away from where it is looked for, whenever it is."""

    timer: Timer

    async def search(self, query: Query) -> Page:
        if query.status is self.timer.status:
            is_due = self.timer.status is Status.PENDING
            new = (
                model.claim(self.timer, "n", 0, 30_000)
                if is_due
                else model.release(self.timer, 0, was_sent=False)
            )
            assert await self.store.apply([Change(self.timer, new)]) == [True]
            self.timer = new
        return await self.store.search(query)


@pytest.mark.parametrize(("counts", "how_many"), [(True, "1"), (False, "some")])
async def test_a_timer_that_is_being_tried_again(make_api, *, counts: bool, how_many: str):
    """It is to come whichever status it has, also if it changes that while it is looked for."""
    store = Moving(MemoryStore())
    store.traits = replace(store.traits, counts=counts)
    store.timer = make_timer(group="g")
    api = make_api(store)
    await make_group(api)
    await insert(store, store.timer)
    refused = await api.delete("/groups/g")
    assert refused.summary == (409, 5, TO_COME.replace("1", how_many))


async def test_a_timer_that_is_made_after_the_last_count(make_api):
    """Who makes it takes the mark away first, so the group is not deleted under it."""
    store = Meddling(MemoryStore())
    api, there = make_api(store), make_api(store)
    shown = await make_group(api)

    async def make() -> None:
        await there.service.rules.look()
        await create(there)

    store.then = make
    store.before = lambda new: new.kind == "group" and b"deleted_at" in new.data
    assert (await api.delete("/groups/g")).summary == (409, 5, STOPPED)
    assert (await api.get("/groups/g")).data == shown


async def test_what_is_being_made_is_waited_for(make_api):
    """Also on a node that knows of the deletion by now, but let the create in before."""
    store = MemoryStore()
    gated = GatedStore(store, "insert")
    api, there = make_api(store), make_api(gated)
    shown = await make_group(api)
    node = OtherNode(there)
    await node.beat()
    creating = asyncio.create_task(create(there))
    await settle()
    task = await deleting(api)
    for _ in range(3):
        await node.beat()
        await looked(api)
    assert not task.done()
    gated.gate.set()
    await creating
    assert (await confirmed(api, node, task)).summary == (409, 5, TO_COME)
    assert (await api.get("/groups/g")).data == shown


class Hanging(GatedStore):
    """A store whose node is killed right after a create was written, once that may begin."""

    def __getattr__(self, name: str) -> Any:
        method = super().__getattr__(name)
        if name != "insert":
            return method

        async def call(*args: Any) -> Any:
            await method(*args)
            await asyncio.Event().wait()

        return call


async def test_a_create_whose_node_is_killed_right_after_it_was_written(make_api):
    """Its node is waited for until it is known to be dead, and then the timer is found."""
    store = MemoryStore()
    hanging = Hanging(store, "insert")
    api, there = make_api(store), make_api(hanging)
    shown = await make_group(api)
    node = OtherNode(there)
    await node.beat()
    creating = asyncio.create_task(create(there))
    await settle()
    task = await deleting(api)
    await node.beat()  # it knows of the mark, and this is its last sign of life
    await looked(api)
    hanging.gate.set()
    await settle()
    for _ in range(9):
        assert not task.done()
        api.clock.advance(1_000)
        await settle()
    api.clock.advance(2_000)
    await settle()
    assert (await task).summary == (409, 5, TO_COME)
    assert (await api.get("/groups/g")).data == shown
    creating.cancel()


async def test_a_node_that_has_died_is_waited_for_once(quick_api: Api, make_api):
    """It confirms neither of the two things that every node must, and that is known after one."""
    api = quick_api
    await make_group(api)
    await OtherNode(make_api(api.store)).beat()
    task = await deleting(api)
    for _ in range(10):
        assert not task.done()
        api.clock.advance(1_000)
        await settle()
    for _ in range(3):
        await looked(api)
    assert (await task).status == 200


async def test_paused_while_it_is_being_deleted(quick_api: Api, make_api):
    """What was acknowledged meanwhile is not undone by a deletion that is refused."""
    api, there = quick_api, make_api(quick_api.store)
    assert (await api.put("/groups/g", SETTINGS)).status == 201
    node = OtherNode(there)
    await node.beat()
    task = await deleting(api)
    await create(there)
    pausing = asyncio.create_task(there.post("/groups/g/pause"))
    await settle()
    assert (await confirmed(api, node, task)).status == 409
    assert (await pausing).status == 200
    assert (await api.get("/groups/g")).data["is_paused"] is True


async def test_changed_while_it_is_being_deleted(quick_api: Api, make_api):
    """It is deleted all the same, as it has become."""
    api, there = quick_api, make_api(quick_api.store)
    await make_group(api)
    node = OtherNode(there)
    await node.beat()
    task = await deleting(api)
    assert (await there.put("/groups/g", {"title": "theirs"})).status == 200
    assert (await confirmed(api, node, task)).status == 200
    assert (await api.get("/groups/g")).status == 404


async def test_a_node_that_never_confirms(quick_api: Api, make_api):
    """After a while it is said so, and the group is as it was."""
    api, there = quick_api, make_api(quick_api.store)
    shown = await make_group(api)
    node = OtherNode(there)
    await node.beat()
    task = await deleting(api)
    there.service.rules.makes_by = lambda: 0  # as one of another version
    for _ in range(2 * round(LONGEST)):
        await node.beat()
        api.clock.advance(1_000)
        await settle()
    answer = await task
    assert (answer.status, answer.code) == (503, 9)
    assert answer.message.startswith("group: not every node has confirmed in time")
    assert (await api.get("/groups/g")).data == shown


async def test_two_at_once(make_api):
    """Who marks it last deletes it; the other one is told so, and takes nothing back."""
    store = Meddling(MemoryStore())
    api, other = make_api(store), make_api(store)
    await make_group(api)

    async def meddle() -> None:
        assert (await other.delete("/groups/g")).status == 200

    store.then = meddle
    store.before = lambda new: new.kind == "group" and b"deleted_at" in new.data
    assert (await api.delete("/groups/g")).summary == (409, 5, STOPPED)
    assert (await api.get("/groups/g")).status == 404


@pytest.mark.parametrize("how", ["before", "after"])
async def test_killed_at_every_write(make_api, how: str):
    """The group is as it was, or gone; timers can be made in it, and the next try ends it."""
    kills = 0
    for at in range(1, 20):
        real = MemoryStore()
        api: Api = make_api(real)
        shown = await make_group(api)
        dying: Api = make_api(CrashingStore(real, 0, how))
        await dying.get("/groups")
        dying.store.writes, dying.store._at = 0, at
        try:
            assert (await dying.delete("/groups/g")).status == 200
        except Crash:
            kills += 1
        else:
            break
        await api.service.rules.look(anew=True)
        found = await api.get("/groups/g")
        was_there = found.status == 200
        assert not was_there or found.data == shown, at
        made = await create(make_api(real))
        kept = (await api.get("/groups/g")).data
        assert kept == shown if was_there else kept["title"] is None, at
        assert (await api.delete("/groups/g")).summary == (409, 5, TO_COME)
        assert (await api.delete(f"/timers/{made}")).status == 200
        assert (await make_api(real).delete("/groups/g")).status == 200
    assert kills >= 5  # the mark, another revision of tenants, the end, with revisions; the audit


@pytest.mark.parametrize("how", ["before", "after"])
async def test_a_create_that_is_killed_at_every_write(make_api, how: str):
    """No timer is left behind in a group that is deleted after that."""
    kills = 0
    for at in range(1, 20):
        store = Meddling(MemoryStore())
        api: Api = make_api(store)
        shown = await make_group(api)
        dying: Api = make_api(CrashingStore(store.store, 0, how))

        async def be_killed(dying: Api = dying, at: int = at) -> None:
            nonlocal kills
            await dying.service.rules.look()
            dying.store.writes, dying.store._at = 0, at
            try:
                await create(dying)
            except Crash:
                kills += 1

        store.then = be_killed
        store.before = lambda new: new.kind == "group" and b"deleted_at" in new.data
        killed_before = kills
        answer = await api.delete("/groups/g")
        timers = (await api.get("/timers", group="g")).data["timers"]
        if answer.status == 200:
            assert timers == [], at
        else:
            assert answer.summary == (409, 5, STOPPED)
            assert (await api.get("/groups/g")).data == shown
        if kills == killed_before:
            break
    assert kills >= 2  # the mark that is taken away, and its revision
