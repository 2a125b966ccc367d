"""Two tenants of one installation that have the same of everything, under the same names."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from duetime.api.app import create_app
from duetime.api.cursors import Cursors
from duetime.api.seal import Seal
from duetime.nodes import EngineStatus, NodeRecord, NodeStatus, TargetReport
from duetime.service import Service
from duetime.stores import Key, Store
from duetime.testing import FakeClock, FlakyStore, RecordingSender
from duetime.timer import Timer
from duetime.vault import Vault
from tests.api.client import FAILED, KEY, Answer, Api, http_callback, timer_body

NOW = 1_761_474_600_000
KINDS = (
    "tenant",
    "key",
    "group",
    "target",
    "key uses",
    "action",
    "signing secret",
    "credential",
)
BEARER = {"type": "bearer", "token": "t", "hosts": ["api.example.com"]}

OWN = {"rival": "mine", "acme": "solo"}  # what each has beside what all have

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_KEY = re.compile(r"dt_[0-9a-f]{16}(_[\w-]{43})?")
_KEY_ID = re.compile(r'"id":"[0-9a-f]{16}"')


class OneNode:
    """An engine that is there to be asked about."""

    def notice(self, timer: Any) -> None:
        pass

    def status(self) -> EngineStatus:
        return EngineStatus(alive=True, writable=True, behind_ms=0)

    def nodes(self) -> list[NodeStatus]:
        about = NodeRecord(host="host-of-the-operator", pid=4711, version="1")
        return [NodeStatus(name="n1", is_this=True, state="alive", last_seen_ms=0, about=about)]

    def targets_here(self) -> dict[str, TargetReport]:
        names = [f"{tenant} {own}.example:443" for tenant, own in OWN.items()]
        return {name: self.target_here(name) for name in names}

    def target_here(self, name: str) -> TargetReport:
        tenant = name.partition(" ")[0]
        if tenant not in OWN or not name.endswith(f"{OWN[tenant]}.example:443"):
            return TargetReport()
        told = {"failures": 12, "failing_for": 1_000, "probe_in": 1_000}
        return TargetReport(waiting=4711, error=f"payload of {tenant}", **told)

    def shares(self) -> dict[str, list[int]]:
        return {"n1": [0]}

    def lag(self) -> int:
        return 0


class NotingStore:
    """A store that notes whose timers are read by their ids, and which by their keys."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.owners: list[str | None] = []
        self.by_key: list[Timer | None] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def get(self, ids: Sequence[str], tenant: str | None = None) -> list[Timer | None]:
        self.owners.append(tenant)
        return await self._store.get(ids, tenant)

    async def get_by_key(self, keys: Sequence[Key]) -> list[Timer | None]:
        found = await self._store.get_by_key(keys)
        self.by_key += found
        return found


class Tenant(NamedTuple):
    """A tenant with the keys to its house, and what each thing in it is called."""

    name: str
    key: str  # an admin's
    other_key: str
    names: dict[str, str]
    ids: set[str]  # all that it was given


class House:
    """The app over a store that notes what it is asked."""

    def __init__(self, store: Store) -> None:
        self.clock = FakeClock(NOW)
        self.noting = NotingStore(store)
        self.store = FlakyStore(self.noting)
        sender = RecordingSender()
        vault = Vault([bytes(32)])
        self.service = Service(self.store, sender, self.clock, engine=OneNode(), vault=vault)
        self.api = Api(create_app(self.service, KEY), self.service, self.store, self.clock, sender)

    async def call(self, method: str, path: str, *, body: Any = None, **how: Any) -> Answer:
        """Make a request, at a time of its own."""
        self.clock.step_wall_clock(1)
        return await self.api.call(method, path, body, **how)

    async def watched(self, method: str, path: str, **how: Any) -> tuple[Answer, list[str]]:
        """Make a request without letting time pass, and tell what it asked of the store."""
        self.store.calls.clear()
        self.noting.owners.clear()
        self.noting.by_key.clear()
        answer = await self.api.call(method, path, how.pop("body", None), **how)
        return answer, self.store.calls.copy()

    async def work(self) -> None:
        """Let all be done that is done in the background."""
        await self.service.audit.close()
        while await self.service.actions.step() < 1:
            pass

    async def furnish(self, tenant: str, extra: str) -> Tenant:
        """Move a tenant in; what is called ``extra`` it has beside what all have."""
        key = await self.api.make_key(tenant)
        other_key = await self.api.make_key(tenant, "read")

        async def post(path: str, body: Any = None, method: str = "POST", **how: Any) -> Any:
            answer = await self.call(method, path, body=body, key=key, **how)
            assert answer.status < 300, (path, answer)
            return answer.data

        for group in ("g", extra):
            defaults = {"title": f"title of {tenant}", "headers": {"X-Mine": f"header of {tenant}"}}
            await post(f"/groups/{group}", defaults, "PUT")
        await post(f"/credentials/{extra}", BEARER, "PUT")
        await post("/groups/held", {}, "PUT")
        await post("/groups/held/pause")
        secret = await post("/signing-secrets", {"group": extra})
        for target in ("both", extra):
            await post(f"/targets/{target}.example/pause", {"reason": f"title of {tenant}"})
        about = {
            "name": f"{extra} name",
            "tags": ["t", extra],
            "correlation_id": extra,
            "metadata": {"m": extra},
            "callback": http_callback(payload={"card": f"payload of {tenant}"}),
        }
        made = [
            await post("/timers", timer_body(group=group, timer_id=timer_id, **about))
            for group, timer_id in (("g", "k"), ("g", extra), (extra, "k"), (extra, extra))
        ]
        once = {"Idempotency-Key": "once"}
        made.append(await post("/timers", timer_body(name="n"), headers=once))
        batch = await post("/timers/batch", {"timers": [timer_body(**about), timer_body()]})
        made += [each["data"] for each in batch["timers"]]
        ids = [each["id"] for each in made]
        await self.api.claim(ids[4])
        await self.api.finish(ids[4], FAILED)
        await post(f"/timers/{ids[5]}/pause")
        await post(f"/timers/{ids[6]}", method="DELETE")
        wanted = {"action": "update", "filter": {"all": True}, "update": {"name": f"n of {tenant}"}}
        ended = await post("/timers/actions", {**wanted, "dry_run": True})
        await self.work()
        under_way = await post("/timers/actions", {**wanted, "dry_run": True})
        keys = (await self.call("GET", f"/tenants/{tenant}/keys", key=key)).data["keys"]
        page = await self.call("GET", "/timers", key=key, params={"limit": 3})
        lines = await self.call("GET", "/audit", key=key, params={"limit": 3})
        actions = await self.call("GET", "/actions", key=key, params={"limit": 1})
        log = Cursors(Seal(KEY), tenant, f"attempts of {ids[4]}")
        names = {
            "tenant": tenant,
            "group": extra,
            "timer_id": extra,
            "id": ids[3],
            "failed": ids[4],
            "keyless": ids[5],
            "admin": key.split("_")[1],
            "key": other_key.split("_")[1],
            "secret": secret["id"],
            "action": ended["id"],
            "under_way": under_way["id"],
            "node": "n1",
            "target": f"{extra}.example",
            "cursor": page.data["next_cursor"],
            "line": lines.data["next_cursor"],
            "latest": actions.data["next_cursor"],
            "before_failed": log.write((0, 0)),
        }
        lines = await self.store.lines(tenant, None, 1_000, descending=False)
        given = {*ids, *(each["id"] for each in keys), *(line.id for line in lines)}
        given |= {ended["id"], under_way["id"], secret["id"], secret["fingerprint"]}
        return Tenant(tenant, key, other_key, names, given)

    async def belongings(self, tenant: str) -> dict[str, Any]:
        """All that the store has of a tenant."""
        timers = [each for each in await self._scanned() if each.tenant == tenant]
        records = [
            record
            for kind in KINDS
            for record in await self.store.records(kind)
            if record.name.split("/")[0] == tenant or f'"{tenant}"'.encode() in record.data
        ]
        return {
            "timers": {timer.id: timer for timer in timers},
            "attempts": [await self.store.attempts(timer.id, None, 10) for timer in timers],
            "records": {(record.kind, record.name): record for record in records},
            "ended actions": await self.store.records(f"ended action/{tenant}"),
            "lines": await self.store.lines(tenant, None, 10_000, descending=False),
        }

    async def _scanned(self) -> list[Any]:
        found: list[Any] = []
        while part := await self.store.scan(found[-1].id if found else None, 500):
            found += part
        return found


def unlike(names: dict[str, str]) -> dict[str, str]:
    """Names of what does not exist, as alike to these as can be: in length, in time, in shard."""

    def other(id_: str) -> str:
        return id_[:-1] + ("0" if id_[-1] != "0" else "1")

    lettered = ("id", "failed", "keyless", "admin", "key", "secret", "action", "under_way")
    cursors = ("cursor", "line", "latest", "before_failed")
    return {
        "tenant": names["tenant"][::-1],
        "group": names["group"][::-1],
        "timer_id": names["timer_id"][::-1],
        **{name: other(names[name]) for name in lettered},
        "node": "n0",
        "target": f"{names['group'][::-1]}.example",
        **{name: other(names[name]) for name in cursors},
    }


def alike(answer: Answer, names: dict[str, str]) -> tuple[int, dict[str, str], str]:
    """An answer without the names that were asked for, and without those that were made for it."""
    text = answer.body.decode()
    for name in sorted(names.values(), key=len, reverse=True):
        text = re.sub(rf"\b{re.escape(name)}\b", "*", text)
    for made in (_UUID, _KEY, _KEY_ID):
        text = made.sub("?", text)
    return answer.status, answer.headers, text
