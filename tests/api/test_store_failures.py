"""A store that fails: 503 only if nothing was written, 500 if nobody knows what was."""

import asyncio
from typing import Any

import pytest

from duetime.errors import StoreUnavailable
from duetime.stores import Store
from duetime.testing import FlakyStore
from tests.api.client import Answer, timer_body
from tests.api.conftest import MakeApi

NOTHING = "the database did not take the change; nothing was written, try again"
WRITES = {"insert", "apply"}


class FlakyWrites(FlakyStore):
    """A store of which only a number of writes fail; what is read after that is the truth."""

    def __init__(self, store: Store, failing: str, times: int = 1) -> None:
        super().__init__(store)
        self._how = failing
        self.times = times

    def __getattr__(self, name: str) -> Any:
        method = super().__getattr__(name)

        async def call(*args: Any) -> Any:
            if name not in WRITES or self.times == 0:
                return await method(*args)
            self.times -= 1
            self.failing = self._how
            try:
                return await method(*args)
            finally:
                self.failing = None

        return call


class LosesAnswers(FlakyStore):
    """A store that goes away with a write: neither it nor anything after it is answered."""

    def __init__(self, store: Store, failing: str) -> None:
        super().__init__(store)
        self._how = failing

    def __getattr__(self, name: str) -> Any:
        method = super().__getattr__(name)

        async def call(*args: Any) -> Any:
            if name in WRITES:
                self.failing = self._how
            return await method(*args)

        return call


def assert_unavailable(answer: Answer) -> None:
    assert answer.summary == (503, 9, NOTHING)
    assert answer.data is None
    assert answer.headers["retry-after"] == "1"


def assert_unknown(answer: Answer) -> None:
    assert (answer.status, answer.code, answer.data) == (500, 1, None)
    assert answer.message.startswith("database error: ")
    assert "not known whether the change was made" in answer.message


@pytest.mark.promise("failing-store")
@pytest.mark.parametrize("key", [None, "x"])
async def test_create_before(make_api: MakeApi, store: Store, key: str | None):
    """A create that was not written is 503, and leaves no timer."""
    api = make_api(FlakyWrites(store, "before"))
    assert_unavailable(await api.post("/timers", timer_body(timer_id=key)))
    assert (await api.get("/timers")).data["total"] == 0
    assert (await api.post("/timers", timer_body(timer_id=key))).status == 201


@pytest.mark.promise("failing-store")
@pytest.mark.parametrize("key", [None, "x"])
async def test_create_after(make_api: MakeApi, store: Store, key: str | None):
    """A create that was written, though its answer was lost, is 201."""
    api = make_api(FlakyWrites(store, "after"))
    answer = await api.post("/timers", timer_body(timer_id=key))
    assert answer.summary == (201, 0, "timer created successfully")
    [stored] = (await api.get("/timers")).data["timers"]
    assert stored == answer.data


@pytest.mark.promise("one-timer-per-key")
async def test_create_on_a_taken_key(make_api: MakeApi, store: Store):
    """Where the key was taken already, a lost answer changes nothing: 200 or 409."""
    await make_api(store).create(timer_id="x")
    for how in ("before", "after"):
        same = await make_api(FlakyWrites(store, how)).post("/timers", timer_body(timer_id="x"))
        assert same.status == 200
        body = timer_body(timer_id="x", name="other")
        other = await make_api(FlakyWrites(store, how)).post("/timers", body)
        assert (other.status, other.code) == (409, 5)


@pytest.mark.promise("failing-store")
@pytest.mark.parametrize("how", ["before", "after"])
@pytest.mark.parametrize("key", [None, "x"])
async def test_create_unknown(make_api: MakeApi, store: Store, how: str, key: str | None):
    """If the store cannot be asked either, it is 500: the timer may be there or not."""
    api = make_api(LosesAnswers(store, how))
    assert_unknown(await api.post("/timers", timer_body(timer_id=key)))
    total = (await make_api(store).get("/timers")).data["total"]
    assert total == (1 if how == "after" else 0)


async def test_creates_that_share_a_write(make_api: MakeApi, store: Store):
    """When a shared write fails, each create is told what became of its own timer."""
    api = make_api(FlakyWrites(store, "before", times=2))
    answers = await asyncio.gather(
        *(api.post("/timers", timer_body(timer_id=f"k{n}")) for n in range(8))
    )
    listed = {timer["timer_id"] for timer in (await api.get("/timers")).data["timers"]}
    assert {answer.status for answer in answers} == {503} or listed
    assert listed == {answer.data["timer_id"] for answer in answers if answer.status == 201}


@pytest.mark.parametrize("how", ["before", "after"])
async def test_batch(make_api: MakeApi, store: Store, how: str):
    """A batch whose write failed answers per timer: created, or code 9 if it was not written."""
    api = make_api(FlakyWrites(store, how))
    bodies = [timer_body(), timer_body(colour="red"), timer_body(timer_id="x")]
    answer = await api.post("/timers/batch", {"timers": bodies})
    assert answer.status == 200
    codes = [item["code"] for item in answer.data["timers"]]
    assert codes == ([0, 2, 0] if how == "after" else [9, 2, 9])
    assert answer.data["created"] == (2 if how == "after" else 0)
    total = (await api.get("/timers")).data["total"]
    assert total == answer.data["created"]


async def test_batch_unknown(make_api: MakeApi, store: Store):
    """A batch of which nobody knows whether it was written is 500."""
    api = make_api(LosesAnswers(store, "after"))
    assert_unknown(await api.post("/timers/batch", {"timers": [timer_body()]}))


CHANGES = [
    ("PUT", "", {"name": "changed", "metadata": {"a": 1.5}}),
    ("PUT", "", {"callback": {"type": "http", "url": "https://e.com/", "payload": [1, "ä"]}}),
    ("DELETE", "", None),
    ("POST", "/fire", None),
    ("POST", "/pause", None),
]


@pytest.mark.promise("failing-store")
@pytest.mark.parametrize(("method", "action", "body"), CHANGES)
async def test_change_before(make_api: MakeApi, store: Store, method: str, action: str, body):
    """A change that was not written is 503, and the timer is as it was."""
    made = await make_api(store).create()
    api = make_api(FlakyWrites(store, "before"))
    before = await api.shown(made["id"])
    assert_unavailable(await api.call(method, f"/timers/{made['id']}{action}", body))
    assert await api.shown(made["id"]) == before


@pytest.mark.promise("failing-store")
@pytest.mark.parametrize(("method", "action", "body"), CHANGES)
async def test_change_after(make_api: MakeApi, store: Store, method: str, action: str, body):
    """A change that was written, though its answer was lost, is done once and answered as done."""
    made = await make_api(store).create()
    api = make_api(FlakyWrites(store, "after"))
    answer = await api.call(method, f"/timers/{made['id']}{action}", body)
    assert answer.status == 200
    assert answer.headers["etag"] == '"2"'
    assert (await api.shown(made["id"]))["version"] == 2


@pytest.mark.promise("failing-store")
@pytest.mark.parametrize("how", ["before", "after"])
@pytest.mark.parametrize(("method", "action", "body"), CHANGES)
async def test_change_unknown(
    make_api: MakeApi, store: Store, *, method: str, action: str, body, how: str
):
    """A change of which nobody knows whether it was written is 500."""
    made = await make_api(store).create()
    api = make_api(LosesAnswers(store, how))
    assert_unknown(await api.call(method, f"/timers/{made['id']}{action}", body))


async def test_change_that_was_overtaken(make_api: MakeApi, store: Store):
    """A change whose answer was lost, and that has another one on top of it since, is 500.

    It must not be tried on what the timer has become: that would refuse what was done.
    """
    made = await make_api(store).create()

    class Overtaken(FlakyWrites):
        def __getattr__(self, name: str) -> Any:
            method = super().__getattr__(name)

            async def call(*args: Any) -> Any:
                if name == "get" and self.times == 0:
                    await make_api(store).post(f"/timers/{made['id']}/resume")
                return await method(*args)

            return call

    api = make_api(Overtaken(store, "after"))
    assert_unknown(await api.post(f"/timers/{made['id']}/pause"))
    assert (await make_api(store).shown(made["id"]))["version"] == 3


@pytest.mark.parametrize("how", ["before", "after"])
async def test_replace(make_api: MakeApi, store: Store, how: str):
    """PUT by key keeps the same promises."""
    await make_api(store).create(timer_id="x")
    api = make_api(FlakyWrites(store, how))
    answer = await api.put("/groups/default/timers/x", timer_body(name="new"))
    if how == "before":
        assert_unavailable(answer)
    else:
        assert (answer.status, answer.headers["etag"]) == (200, '"2"')
    shown = await api.get("/groups/default/timers/x")
    assert shown.data["name"] == (None if how == "before" else "new")


@pytest.mark.parametrize(
    "path",
    [
        "/timers",
        "/timers/{id}",
        "/timers/{id}/attempts",
        "/groups/default/timers/x",
    ],
)
async def test_reads(make_api: MakeApi, store: Store, path: str):
    """A read that fails is 503: it can be tried again."""
    made = await make_api(store).create(timer_id="x")
    flaky = FlakyStore(store)
    flaky.failing = "before"
    answer = await make_api(flaky).get(path.format(id=made["id"]))
    assert (answer.status, answer.code, answer.data) == (503, 9, None)
    assert answer.headers["retry-after"] == "1"
    assert "try again" in answer.message


async def test_change_whose_timer_cannot_be_read(make_api: MakeApi, store: Store):
    """A change that did not even find its timer is 503: nothing was written."""
    made = await make_api(store).create()
    flaky = FlakyStore(store)
    flaky.failing = "before"
    answer = await make_api(flaky).delete(f"/timers/{made['id']}")
    assert (answer.status, answer.code) == (503, 9)


async def test_timer_that_keeps_changing(make_api: MakeApi, store: Store):
    """A change that loses every race is 503 in the end; nothing was written."""

    class Loses(FlakyStore):
        async def apply(self, changes):
            return [False] * len(changes)

    made = await make_api(store).create()
    answer = await make_api(Loses(store)).delete(f"/timers/{made['id']}")
    expected = "the timer keeps changing; nothing was written, try again"
    assert answer.summary == (503, 9, expected)


async def test_loses_a_race_and_tries_again(make_api: MakeApi, store: Store):
    """A change that loses a race is tried on what the timer has become."""
    quiet = make_api(store)
    made = await quiet.create()

    class Raced(FlakyStore):
        raced = False

        async def apply(self, changes):
            if not self.raced:
                self.raced = True
                assert (await quiet.put(f"/timers/{made['id']}", {"name": "b"})).status == 200
            return await self.store.apply(changes)

    answer = await make_api(Raced(store)).put(f"/timers/{made['id']}", {"tags": ["t"]})
    assert (answer.status, answer.data["version"]) == (200, 3)
    assert (answer.data["name"], answer.data["tags"]) == ("b", ["t"])


@pytest.mark.promise("cancel-holds")
async def test_loses_a_race_against_the_engine(make_api: MakeApi, store: Store):
    """A cancel that loses against a claim is refused: the attempt has started."""
    quiet = make_api(store)
    made = await quiet.create()

    class Raced(FlakyStore):
        async def apply(self, changes):
            if (await quiet.shown(made["id"]))["status"] == "pending":
                await quiet.claim(made["id"])
            return await self.store.apply(changes)

    answer = await make_api(Raced(store)).delete(f"/timers/{made['id']}")
    assert answer.summary == (400, 2, "cannot cancel timer with status 'executing'")


async def test_no_driver_error_escapes(make_api: MakeApi, store: Store):
    """A closed store is a store that does not answer."""
    api = make_api(store)
    await store.close()
    for method, path, body in (
        ("GET", "/timers", None),
        ("POST", "/timers", timer_body()),
        ("POST", "/timers/batch", {"timers": [timer_body()]}),
    ):
        answer = await api.call(method, path, body)
        assert answer.status in {500, 503}
        assert answer.code in {1, 9}
        assert answer.message != "unexpected error; the server's log tells more"
    with pytest.raises(StoreUnavailable):
        await store.ping()


async def test_engine_hears_of_what_was_written(make_api: MakeApi, store: Store):
    """The engine is told of a timer exactly when its write is known to have landed."""

    class Ear:
        def __init__(self) -> None:
            self.heard: list[tuple[str, int]] = []

        def notice(self, timer) -> None:
            self.heard.append((timer.id, timer.version))

        def lag(self) -> int:
            return 0

    ear = Ear()
    lost = await make_api(FlakyWrites(store, "before"), engine=ear).post("/timers", timer_body())
    assert (lost.status, ear.heard) == (503, [])
    landed = await make_api(FlakyWrites(store, "after"), engine=ear).post("/timers", timer_body())
    id_ = landed.data["id"]
    assert ear.heard == [(id_, 1)]
    await make_api(FlakyWrites(store, "after"), engine=ear).post(f"/timers/{id_}/fire")
    assert ear.heard == [(id_, 1), (id_, 2)]


SECRET = "connection to 10.1.2.3:5432 refused for user 'duetime'"
NO_ANSWER = (503, 9, "the database did not answer; try again")
HIDDEN = [  # for which route, what those hear who do not run the service
    ("GET", "/timers", None, NO_ANSWER),
    ("GET", "/groups", None, None),
    ("GET", "/usage", None, (503, 9, "the timers could not be counted; try again")),
    ("GET", "/actions", None, NO_ANSWER),
    ("GET", "/audit", None, NO_ANSWER),
    ("GET", "/audit/export", None, NO_ANSWER),
    ("GET", "/tenants/acme/keys", None, None),
    ("POST", "/timers", timer_body(), None),
    ("POST", "/timers/batch", {"timers": [timer_body()]}, None),
    ("PUT", "/groups/g", {}, None),
    ("POST", "/timers/actions", {"action": "cancel", "filter": {"all": True}}, NO_ANSWER),
]
NOT_TOLD = (
    500,
    1,
    (
        "database error; if this was a change, it is not known whether it was made: look before "
        "repeating it"
    ),
)


class Telling(FlakyStore):
    """A store that fails with the words of a driver."""

    def __getattr__(self, name: str) -> Any:
        method = super().__getattr__(name)

        async def call(*args: Any, **named: Any) -> Any:
            if self.failing:
                raise StoreUnavailable(f"PostgreSQL: {SECRET}")
            return await method(*args, **named)

        return call


@pytest.mark.promise("tenants-apart")
@pytest.mark.parametrize(("method", "path", "body", "expected"), HIDDEN)
async def test_what_the_driver_says_is_the_operators(
    make_api: MakeApi, store: Store, *, method: str, path: str, body, expected, caplog
):
    """Tenants hear that the database failed, and not where it is; the operator and the log do."""
    flaky = Telling(store)
    api = make_api(flaky)
    key = await api.make_key("acme")
    flaky.failing = "before"
    for _ in range(3):
        answer = await api.call(method, path, body, key=key)
        assert answer.summary == (expected or NOT_TOLD)
        assert SECRET not in answer.body.decode()
    [told] = [record.getMessage() for record in caplog.records if record.name == "duetime.api"]
    assert SECRET in told
    operators = await api.call(method, path, body, headers={"X-Tenant-ID": "acme"})
    assert operators.status == (expected or NOT_TOLD)[0]
    assert SECRET in operators.message
    assert len([each for each in caplog.records if each.name == "duetime.api"]) == 1


@pytest.mark.promise("tenants-apart")
async def test_nor_in_a_batch(make_api: MakeApi, store: Store):
    """A timer of a batch whose failure has words of the driver is told of without them."""
    flaky = Telling(store)
    api = make_api(flaky)
    key = await api.make_key("acme")
    await api.put("/tenants/acme", {"quotas": {"pending": 5}})
    real = store.count

    async def failing(*_args: Any) -> Any:
        raise StoreUnavailable(f"PostgreSQL: {SECRET}")

    store.count = failing
    answer = await api.call("POST", "/timers/batch", {"timers": [timer_body()]}, key=key)
    store.count = real
    assert "the timers could not be counted" in answer.body.decode()
    assert SECRET not in answer.body.decode()


async def test_the_log_hears_of_each_outage_once(make_api: MakeApi, store: Store, caplog):
    """However long one lasts; one that comes a minute after it is another."""
    flaky = Telling(store)
    api = make_api(flaky)
    key = await api.make_key("acme")
    for passed, heard in ((0, 1), (59_000, 1), (59_000, 1), (60_000, 2)):
        api.clock.advance(passed)
        flaky.failing = "before"
        assert (await api.call("GET", "/timers", key=key)).status == 503
        flaky.failing = None
        assert (await api.call("GET", "/timers", key=key)).status == 200
        assert len([each for each in caplog.records if each.name == "duetime.api"]) == heard


async def test_own_words_are_told_to_all(make_api: MakeApi, store: Store):
    """What says nothing of the database stays as it is: it tells what to do."""
    quiet = make_api(store)
    key = await quiet.make_key("acme")
    api = make_api(FlakyWrites(store, "before"))
    assert_unavailable(await api.call("POST", "/timers", timer_body(), key=key))
