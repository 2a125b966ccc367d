"""Houses to move from and into: what is in them, and somebody who looks on."""

import asyncio

from msgspec import Raw
from msgspec.structs import replace

from duetime.moving.copying import Copy
from duetime.stores import Insert, Record
from duetime.timer import HttpCallback, Status
from tests.factories import (
    NOW,
    claimed,
    make_attempt,
    make_event,
    make_line,
    make_spec,
    make_timer,
)

LAYOUT = Record(kind="layout", name="timers", version=3, data=b'{"num_shards": 64}')
# Those who live in a house: a tenant that was deleted, and one without any lines, among them.
TENANTS = ("acme", "gone", "zoo")
INHABITANTS = (
    *(
        Record(kind="tenant", name=name, version=2, data=f'{{"name": "{name}"}}'.encode())
        for name in TENANTS
    ),
    Record(kind="key", name="0123456789abcdef", data=b'{"id":"0123456789abcdef","tenant":"acme"}'),
    Record(kind="key", name="fedcba9876543210", version=7, data=b'{ "expires_at": 1 }'),
    Record(kind="group", name="acme/mail", version=3, data='{"title":"Grüße"}'.encode()),
    Record(kind="group", name="default/mail", data=b"{}"),
    Record(kind="target", name="acme api.example.com:443", version=4, data=b'{"paused_at":1}'),
    Record(kind="key uses", name="acme", version=99, data=b'{"0123456789abcdef":1750000000000}'),
    Record(kind="action", name="acme/a1", version=12, data=b'{"batch":["x"]}'),
    Record(kind="ended action/default", name="default/a2", data=b"{}"),
    Record(kind="ended action/acme", name="acme/a3", data=b"{}"),
    Record(kind="ended action/gone", name="gone/a4", data=b"{}"),
)
KINDS = ("layout", *dict.fromkeys(record.kind for record in INHABITANTS))
_FINAL = {Status.PAUSED, Status.FAILED, Status.COMPLETED, Status.CANCELED}


class Listening:
    """Keeps what it is told."""

    def __init__(self):
        self.said = []
        self.shown = []

    def at(self, task, count, things="timers"):
        self.shown.append((task, count, things))

    def say(self, sentence):
        self.said.append(sentence)


class Breaking:
    """A target whose power goes after so many inserts."""

    def __init__(self, store, after):
        self.store = store
        self.left = after

    def __getattr__(self, name):
        return getattr(self.store, name)

    async def insert(self, inserts):
        if self.left == 0:
            raise RuntimeError("the power is gone")
        self.left -= 1
        return await self.store.insert(inserts)


def furniture(count):
    """Timers in every status, with attempts, and with events that were not told yet."""
    return [_insert(number) for number in range(count)]


def _insert(number):
    callback = HttpCallback(
        url="https://example.com/hook",
        headers={"b": "1", "a": str(number)},
        payload=Raw(b'{ "n": %d }' % number),
    )
    spec = make_spec(callback=callback, name=f"näme {number}", tags=("x", f"tag-{number % 7}"))
    timer = make_timer(
        tenant=f"t{number % 3}", group=f"g{number % 2}", spec=spec, created_at=NOW + number
    )
    status = list(Status)[number % len(Status)]
    if status is Status.PENDING:
        return Insert(timer, (make_event(timer),) if number % 5 == 0 else ())
    timer = claimed(timer)
    if status is not Status.EXECUTING:
        wake_at = None if status in _FINAL else timer.wake_at
        timer = replace(timer, status=status, wake_at=wake_at, version=2 + number % 9)
    return Insert(timer, attempts=log_of(timer, number % 4))


def log_of(timer, length):
    return tuple(make_attempt(timer, attempt=n, node=f"node-{n}") for n in range(1, length + 1))


async def furnished(store, count=100):
    """Fill a store, and answer with what it holds."""
    inserts = furniture(count)
    assert await store.insert(inserts) == [None] * count
    assert await store.put_record(None, LAYOUT)
    return inserts


async def inhabited(store, count=100):
    """Let tenants move in, who have done so many things each; the lines that tell of it."""
    for record in INHABITANTS:
        assert await store.put_record(None, record)
    lines = [
        make_line(
            tenant=tenant,
            at=NOW + number * 1_000,
            key="0123456789abcdef" if number % 2 else None,
            details={"b": number, "a": {"x": [1.5, None, "ä"]}} if number % 3 else {},
        )
        for number in range(count)
        for tenant in ("gone", "default", "acme")
    ]
    for first in range(0, len(lines), 1_000):
        await store.write_lines(lines[first : first + 1_000], None)
    return lines


async def copied(source, target, clock, onlooker=None, name="here", **options):
    """Copy, while time passes whenever somebody waits for it."""
    copy = Copy(source, target, clock, onlooker or Listening(), name=name, **options)
    return await passing(clock, copy.run())


async def passing(clock, work, meanwhile=None):
    """Let time pass until some work is done; each tenth of a second something may happen."""
    task = asyncio.ensure_future(work)
    while not task.done():
        for _ in range(20):
            await asyncio.sleep(0)
        if meanwhile and not task.done():
            await meanwhile()
        clock.advance(100)
    return task.result()


async def holdings(store):
    """All that a store holds, but for what nodes and copies note down: for comparing."""
    timers, after = [], None
    while part := await store.scan(after, 200):
        timers += part
        after = part[-1].id
    logs = {timer.id: await store.attempts(timer.id, None, 10_000) for timer in timers}
    events = await store.events(range(4096), None, 10_000)
    records = [record for kind in KINDS for record in await store.records(kind)]
    lines = [line for tenant in ("default", *TENANTS) for line in await lines_of(store, tenant)]
    return sorted(timers, key=lambda timer: timer.id), logs, events, records, lines


async def lines_of(store, tenant):
    """All lines of a tenant's audit."""
    return await store.lines(tenant, None, 100_000, descending=False)
