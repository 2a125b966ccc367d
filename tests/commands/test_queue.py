"""Creates from a stream: stored before they are acknowledged, once each, and never lost."""

import asyncio

import pytest
from nats.aio.msg import Msg

from duetime.api.envelope import Reply
from duetime.clock import SystemClock, to_rfc3339
from duetime.commands.queue import TELL_EVERY, _pause
from duetime.nats.jetstream import Pulled
from duetime.stores.memory import MemoryStore
from duetime.testing import FakeClock, FlakyStore
from tests.api.client import KEY, timer_body
from tests.api.gated import GatedStore
from tests.commands.callers import Queued, content
from tests.commands.conftest import Enqueue
from tests.servers.nats import own_name
from tests.waiting import eventually, until

HOUR = 3_600_000


async def test_creates_are_taken(enqueue: Enqueue):
    """What was put into the stream becomes timers, and the stream is empty."""
    queued = await enqueue()
    for number in range(5):
        await queued.put(timer_body(name=f"n{number}"))
    assert await queued.queue.step() == 0
    assert {each["name"] for each in await queued.timers()} == {f"n{n}" for n in range(5)}
    await emptied(queued)


async def emptied(queued: Queued) -> None:
    async def is_empty() -> bool:
        return await queued.left() == 0

    await eventually(is_empty, "the stream to be empty")


@pytest.mark.promise("never-lost")
async def test_the_timer_is_stored_before_the_create_is_acknowledged(enqueue: Enqueue):
    """While its timer is being written, a create is not acknowledged."""
    store = GatedStore(MemoryStore(), "insert")
    queued = await enqueue(store)
    await queued.put(timer_body())
    step = asyncio.create_task(queued.queue.step())
    await store.begun.acquire()
    assert await queued.pending() == (0, 1)
    assert await queued.left() == 1
    store.gate.set()
    await step
    assert len(await queued.timers()) == 1
    await emptied(queued)


@pytest.mark.promise("one-timer-per-key", "never-lost")
@pytest.mark.parametrize(
    ("fields", "headers", "key"),
    [
        ({}, {}, None),
        ({"timer_id": "t1"}, {}, "t1"),
        ({}, {"Idempotency_Key": "i1"}, "i1"),
        ({}, {"Nats_Msg_Id": "m1"}, "m1"),
        ({"timer_id": "t1"}, {"Nats_Msg_Id": "m1"}, "t1"),
        ({}, {"Nats_Msg_Id": "m" * 300}, None),
    ],
)
async def test_one_that_comes_again(enqueue: Enqueue, fields, headers, key):
    """A create whose node failed before it could acknowledge it makes one timer, once."""
    store = MemoryStore()
    failing = await enqueue(store, when_stored=fail)
    await failing.put(timer_body(**fields), **headers)
    with pytest.raises(RuntimeError):
        await failing.queue.step()
    [before] = await failing.timers()
    other = await enqueue(store, names=(failing.prefix, failing.stream))
    await come_again(failing)
    await eventually_taken(other)
    [timer] = await other.timers()
    assert timer["id"] == before["id"]
    if key is not None:
        assert timer["timer_id"] == key


def fail() -> None:
    raise RuntimeError("the node ends here")


async def come_again(queued: Queued) -> None:
    """What was taken and not acknowledged comes again: now, and not half a minute later."""
    info = await queued.jetstream.consumer_info(queued.stream, "duetime")
    config = info.config
    config.ack_wait = 0.05
    await queued.jetstream.add_consumer(queued.stream, config)


@pytest.mark.promise("late-fires")
async def test_its_time_is_told_by_when_it_was_sent(enqueue: Enqueue, clock: FakeClock):
    """A create that waited in the stream counts from when it was put there, and may be late."""
    queued = await enqueue()
    clock.step_wall_clock(SystemClock().now() + HOUR - clock.now())
    for times in ({"delay": "1m"}, {"execute_at": to_rfc3339(clock.now() - HOUR // 2)}):
        await queued.put(timer_body(**times))
    await queued.queue.step()
    stored = await queued.api.store.get([each["id"] for each in await queued.timers()])
    assert len(stored) == 2
    for timer in stored:
        assert timer.execute_at < clock.now() - HOUR // 4
        assert timer.wake_at == timer.created_at == clock.now()


@pytest.mark.promise("failing-store", "never-lost")
@pytest.mark.parametrize("failing", ["before", "after"])
async def test_a_store_that_fails(enqueue: Enqueue, failing: str):
    """What the store did not take, or may have taken, comes again and is there once."""
    store = FlakyStore(MemoryStore())
    queued = await enqueue(store)
    await queued.put(timer_body())
    store.failing = failing
    assert await queued.queue.step() > 0  # a rest
    store.failing = None
    await eventually_taken(queued)
    assert len(await queued.timers()) == 1


async def eventually_taken(queued: Queued) -> None:
    """Make passes until nothing is left."""

    async def is_empty() -> bool:
        await queued.queue.step()
        return await queued.left() == 0

    await eventually(is_empty, "the stream to be empty")


@pytest.mark.slow
@pytest.mark.promise("quotas-hold")
async def test_a_quota_that_is_used_up(enqueue: Enqueue, clock: FakeClock):
    """What a quota forbids for now comes again later, and is no dead letter."""
    queued = await enqueue()
    quotas = {"creates_per_second": 1}
    assert (await queued.api.put("/groups/g", {"quotas": quotas})).status in {200, 201}
    for number in range(4):
        await queued.put(timer_body(group="g", name=f"n{number}"))
    await queued.queue.step()
    made = len(await queued.timers())
    assert 0 < made < 4

    async def are_all_made() -> bool:
        clock.advance(10_000)
        await queued.queue.step()
        return len(await queued.timers()) == 4

    await eventually(are_all_made, "all to be made")
    await emptied(queued)


LARGE = 1_000_000  # bytes, of a message of which one more KiB is too many
POISON = [
    (timer_body(delay="soon"), {}, 400, "delay: "),
    (b"{", {}, 400, "body: not valid JSON"),
    (timer_body(colour="red"), {}, 400, "colour: unknown field"),
    (timer_body(), {"key": None}, 401, "unauthorized"),
    (timer_body(), {"tenant": "nobody"}, 404, "tenant not found"),
    (timer_body(timer_id="taken", name="other"), {}, 409, "timer_id: "),
    (timer_body(metadata="x" * LARGE), {}, 413, "body: must be at most 1000000 bytes"),
]


@pytest.mark.promise("never-lost", "no-secret")
@pytest.mark.parametrize(("body", "options", "status", "reason"), POISON)
async def test_poison_becomes_a_dead_letter(enqueue: Enqueue, body, options, status, reason):
    """What can never be done is kept with the reason, without the key, and is not tried again."""
    queued = await enqueue(max_body=LARGE)
    await queued.api.create(timer_id="taken")
    sequence = await queued.put(body, **options, X_Correlation_ID="c1")
    await queued.queue.step()
    dead = await queued.dead(options.get("tenant", "default"))
    assert dead.data == content(body)
    assert dead.headers["Duetime-Status"] == str(status)
    assert dead.headers["Duetime-Error"].startswith(reason)
    assert dead.headers["Duetime-Sequence"] == str(sequence)
    assert dead.headers["Duetime-Subject"].endswith(".queue.create")
    assert dead.headers["X-Correlation-ID"] == "c1"
    assert KEY not in str(dead.headers)
    assert len(await queued.timers()) == 1
    await only_that_is_left(queued)


async def only_that_is_left(queued: Queued) -> None:
    async def is_only_one_left() -> bool:
        return await queued.left() == 1 and await queued.pending() == (0, 0)

    await eventually(is_only_one_left, "the dead letter to be all that is left")


async def until_dead(queued: Queued) -> None:
    """Make passes until no create is left."""

    async def is_dead() -> bool:
        await queued.queue.step()
        return await queued.pending() == (0, 0)

    await eventually(is_dead, "no create to be left")


async def test_a_dead_letter_is_put_once(enqueue: Enqueue):
    """One that is put again, because its node failed before it could say so, is dropped."""
    queued = await enqueue()
    await queued.put(b"{")
    real = Pulled.term
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Pulled, "term", lambda *_: fail())
        with pytest.raises(RuntimeError):
            await queued.queue.step()
    assert Pulled.term is real
    await come_again(queued)
    await until_dead(queued)
    assert await queued.left() == 1


async def test_a_dead_letter_that_is_too_large(enqueue: Enqueue):
    """Of a message as large as NATS takes, a part gives way to the reason."""
    queued = await enqueue()
    body = b"x" * (queued.connection.max_payload - 200)
    await queued.put(body)
    await queued.queue.step()
    dead = await queued.dead()
    assert dead.headers["Duetime-Status"] == "400"
    assert dead.headers["Duetime-Size"] == str(len(body))
    assert body.startswith(dead.data)
    await only_that_is_left(queued)


async def take_only(queued: Queued, *subjects: str) -> None:
    """Let its stream take these."""
    config = (await queued.jetstream.stream_info(queued.stream)).config
    config.subjects = list(subjects)
    await queued.jetstream.update_stream(config)


@pytest.mark.promise("never-lost")
async def test_nobody_takes_dead_letters(enqueue: Enqueue):
    """Where the stream of somebody else takes no dead letters, poison stays in it, and is told."""
    queued = await enqueue()
    await take_only(queued, f"{queued.prefix}.*.queue.create")
    await queued.put(b"{")
    await queued.queue.step()
    assert await queued.pending() == (0, 1)
    await take_only(queued, f"{queued.prefix}.*.queue.*")
    await until_dead(queued)
    assert (await queued.dead()).data == b"{"


@pytest.mark.promise("one-timer-per-key")
async def test_two_nodes_share_a_stream(enqueue: Enqueue):
    """Two nodes that take from one stream make each timer once."""
    store = MemoryStore()
    first = await enqueue(store)
    second = await enqueue(store, names=(first.prefix, first.stream))
    await asyncio.gather(*(first.put(timer_body(name=f"n{number}")) for number in range(500)))
    while await first.left():
        await asyncio.gather(first.queue.step(), second.queue.step())
    names = sorted(timer.spec.name or "" for timer in store._timers.values())
    assert names == sorted(f"n{number}" for number in range(500))


async def test_subjects_of_tenants(enqueue: Enqueue):
    """NATS_TENANTS says whose creates are whose; when it changes, so does what is taken."""
    own, other = own_name(), own_name()
    queued = await enqueue(trusts="subjects", tenants=((own, "acme"),))
    await queued.api.make_key("acme")
    await queued.put(timer_body(), key=None, prefix=own)
    await queued.queue.step()
    answer = await queued.api.call("GET", "/timers", headers={"X-Tenant-ID": "acme"})
    assert len(answer.data["timers"]) == 1
    await take_only(queued, f"{own}.queue.*", f"{other}.queue.*")
    changed = await enqueue(
        queued.api.store,
        trusts="subjects",
        tenants=((own, "acme"), (other, "default")),
        names=(queued.prefix, queued.stream),
    )
    await changed.put(timer_body(), key=None, prefix=other)
    await changed.queue.step()
    assert len(await changed.timers()) == 1


@pytest.mark.promise("tenants-apart")
async def test_subjects_that_another_node_knows(enqueue: Enqueue, caplog):
    """While nodes with another NATS_TENANTS are about, a create on a subject that only they know is
    left to them: it is never taken for somebody else's.
    """
    own, other = own_name(), own_name()
    before = await enqueue(trusts="subjects", tenants=((own, "acme"),))
    await before.api.make_key("acme")
    await take_only(before, f"{own}.queue.*", f"{other}.queue.*")
    after = await enqueue(
        before.api.store,
        trusts="subjects",
        tenants=((own, "acme"), (other, "default")),
        names=(before.prefix, before.stream),
    )
    await after.put(timer_body(), key=None, prefix=other)
    await before.queue.step()
    answer = await before.api.call("GET", "/timers", headers={"X-Tenant-ID": "acme"})
    assert answer.data["timers"] == []
    assert f"{other}.queue.create is no subject of any tenant here" in caplog.text

    async def is_taken() -> bool:
        await after.queue.step()
        return not await after.left()

    await eventually(is_taken, "it to be taken")
    assert len(await after.timers()) == 1


async def test_a_stream_that_does_not_take_what_it_should(enqueue: Enqueue, caplog):
    """Subjects that a stream of somebody else leaves out are told in the log."""
    queued = await enqueue()
    await enqueue(tenants=(("somewhere.else", "default"),), names=(queued.prefix, queued.stream))
    assert f"the stream {queued.stream} does not take somewhere.else.queue.*" in caplog.text


@pytest.mark.promise("tenants-apart")
async def test_the_key_of_another_tenant(enqueue: Enqueue):
    """A create with the key of one tenant on the subject of another is poison."""
    queued = await enqueue()
    key = await queued.api.make_key("acme")
    await queued.api.make_key("globex")
    await queued.put(timer_body(), key=key, tenant="globex")
    await queued.queue.step()
    assert (await queued.dead("globex")).headers["Duetime-Status"] == "403"
    await queued.put(timer_body(), key=key, tenant="acme")
    await queued.queue.step()
    answer = await queued.api.call("GET", "/timers", headers={"X-Tenant-ID": "acme"})
    assert len(answer.data["timers"]) == 1


async def test_what_takes_long_is_not_given_to_others(enqueue: Enqueue, clock: FakeClock):
    """While a timer is being written, the stream is told that somebody is still at it."""
    store = GatedStore(MemoryStore(), "insert")
    queued = await enqueue(store, clock=clock)
    said: list[bytes] = []

    async def hear(message: Msg) -> None:
        said.append(message.data)

    await queued.client.subscribe(f"$JS.ACK.{queued.stream}.>", cb=hear)
    await queued.put(timer_body())
    step = asyncio.create_task(queued.queue.step())
    await store.begun.acquire()
    for count in (1, 2):
        clock.advance(int(TELL_EVERY * 1000))
        await until(lambda count=count: len(said) == count, "word that it is at it", every=0.005)
    store.gate.set()
    await step
    await until(lambda: len(said) == 3, "the acknowledgement", every=0.005)
    assert said == [b"+WPI", b"+WPI", b"+ACK"]


@pytest.mark.parametrize(
    ("deliveries", "asked", "seconds"),
    [(1, None, 0.5), (2, None, 1), (5, None, 8), (7, None, 30), (10_000, None, 30), (1, b"60", 60)],
)
def test_what_failed_comes_again_later_each_time(deliveries: int, asked, seconds: float):
    """Twice as late each time, up to a limit, and not before it was asked to."""
    headers = () if asked is None else ((b"retry-after", asked),)
    assert _pause(Reply(503, "no", headers=headers), deliveries) == seconds


@pytest.mark.promise("bounded-memory")
async def test_large_ones_are_taken_a_few_at_a_time(enqueue: Enqueue):
    """What is taken at once is bounded in bytes, and the rest is taken later."""
    queued = await enqueue()
    for number in range(20):
        await queued.put(timer_body(timer_id=f"t{number}", metadata="x" * 1_000_000))
    await queued.queue.step()
    assert 10 <= len(await queued.timers()) < 20
    await eventually_taken(queued)
    assert len(await queued.timers()) == 20
