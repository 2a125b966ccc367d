"""Histories: what two tenants do, one thing after the other, and what each is told.

A step is done at a time of its own, and chance falls in it as it fell before, whether the other
tenant is there or not. So what a tenant is told can be compared to the letter.
"""

from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from itertools import count
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest.mock import patch

from duetime import ids
from duetime.errors import IllegalTransition
from duetime.stores import Store
from duetime.tenancy import api_key
from tests.api.client import FAILED, OK, Answer, http_callback, timer_body
from tests.stores.neighbours import NOW, House

TENANTS = ("acme", "rival")
SECOND = 1_000
MOST_PAGES = 100
NOBODY = "01890a5d-ac96-774b-8cce-b302099a8057"


class Step(NamedTuple):
    """Something that one of the two does; the numbers say with what, and how."""

    tenant: str
    verb: str
    one: int
    two: int


class Chance:
    """What is random in ids and keys: the same in the same step."""

    def __init__(self) -> None:
        self._step: Any = None
        self._numbers = count()

    def turn_to(self, step: Any) -> None:
        self._step, self._numbers = step, count()

    def draw(self, size: int) -> bytes:
        drawn = f"{self._step} {next(self._numbers)}".encode()
        return blake2b(drawn, digest_size=size).digest()

    @contextmanager
    def ruling(self) -> Iterator[None]:
        """Have ids and keys made of this."""
        tokens = SimpleNamespace(
            token_hex=lambda size: self.draw(size).hex(),
            token_urlsafe=lambda size: urlsafe_b64encode(self.draw(size)).decode().rstrip("="),
        )
        with (
            patch.object(ids, "os", SimpleNamespace(urandom=self.draw)),
            patch.object(api_key, "secrets", tokens),
        ):
            yield


class Life:
    """What a tenant has come by so far."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.key = ""  # an admin's, which it never revokes
        self.timers: list[str] = []
        self.keys: list[str] = []  # texts
        self.actions: list[str] = []

    def timer(self, number: int) -> str:
        return _one_of(self.timers, number, NOBODY)

    def action(self, number: int) -> str:
        return _one_of(self.actions, number, NOBODY)

    def text(self, number: int) -> str:
        return _one_of(self.keys, number, "dt_0123456789abcdef_nobody")

    def remember(self, answer: Answer) -> None:
        """Note what was made."""
        if answer.headers["content-type"] != "application/json" or answer.status >= 300:
            return
        data = answer.data
        batch = data["timers"] if "created" in data else []
        for each in [data, *(item["data"] for item in batch if item["data"])]:
            if "execute_at" in each and each["id"] not in self.timers:
                self.timers.append(each["id"])
        if "key" in data and str(data["key"]).startswith("dt_"):
            self.keys.append(data["key"])
        if "dry_run" in data and data["id"] not in self.actions:
            self.actions.append(data["id"])


class Request(NamedTuple):
    """What to ask."""

    method: str
    path: str
    body: Any = None
    params: dict[str, Any] = {}  # noqa: RUF012 - nobody changes it
    headers: dict[str, str] = {}  # noqa: RUF012 - likewise
    key: str | None = None  # None: the tenant's own


def _one_of(things: list[str], number: int, otherwise: str) -> str:
    return things[number % len(things)] if things else otherwise


GROUPS = ("default", "g", "h")
TEXTS = ("one", "two", "ä/ß")
DELAYS = ("5s", "1h", "30d")
LISTS: tuple[dict[str, Any], ...] = (
    {},
    {"status": "pending"},
    {"group": "g", "order": "asc"},
    {"tag": "one"},
    {"correlation_id": "two"},
    {"name_prefix": "o"},
    {"sort": "execute_at"},
    {"any_tag": "two", "order": "asc"},
    {"metadata": "m=1"},
    {"created_after": "2025-10-26T10:30:10Z"},
)
AUDITS: tuple[dict[str, Any], ...] = (
    {},
    {"order": "asc"},
    {"action": "timer.create"},
    {"kind": "group"},
    {"group": "g"},
    {"actor": "operator"},
)
QUOTAS: tuple[dict[str, Any] | None, ...] = (
    None,
    {"pending": 3},
    {"creates_per_second": 0.5},
    {"payload_bytes": 10},
    {"batch_size": 1},
)
FILTERS: tuple[dict[str, Any], ...] = (
    {"all": True},
    {"group": "g"},
    {"tags": ["one"]},
    {"status": ["pending", "paused"]},
)
ACTIONS: tuple[dict[str, Any], ...] = (
    {"action": "cancel"},
    {"action": "pause"},
    {"action": "resume"},
    {"action": "shift", "by": "1h"},
    {"action": "update", "update": {"name": "changed"}},
    {"action": "delete"},
    {"action": "cancel", "dry_run": True},
)


def _pick(choices: tuple[Any, ...], number: int) -> Any:
    return choices[number % len(choices)]


def _timer(one: int, two: int, **fields: Any) -> dict[str, Any]:
    return timer_body(
        group=_pick(GROUPS, one),
        delay=_pick(DELAYS, two),
        name=_pick(TEXTS, one),
        tags=[_pick(TEXTS, two)],
        correlation_id=_pick(TEXTS, one + two),
        metadata={"m": one},
        callback=http_callback(payload="x" * two * 3),
        **fields,
    )


def _on_timer(method: str, tail: str = "", body: Any = None) -> Callable[..., Request]:
    def ask(me: Life, _: Life, one: int, two: int) -> Request:
        headers = {"If-Match": f'"{two}"'} if two > 3 else {}
        return Request(method, f"/timers/{me.timer(one)}{tail}", body, headers=headers)

    return ask


def _by_key(method: str) -> Callable[..., Request]:
    def ask(_me: Life, _: Life, one: int, two: int) -> Request:
        body = timer_body(delay=_pick(DELAYS, two), name="put") if method == "PUT" else None
        text = _pick(("one", "two", "%C3%A4/%C3%9F"), two)
        return Request(method, f"/groups/{_pick(GROUPS, one)}/timers/{text}", body)

    return ask


def _on_group(method: str, tail: str = "") -> Callable[..., Request]:
    def ask(_me: Life, _: Life, one: int, two: int) -> Request:
        params = {"cancel": "true"} if method == "DELETE" and two % 2 else {}
        body = None
        if method == "PUT":
            rule = _pick(("all", "latest", "none"), two)
            body = {"title": f"t{two}", "quotas": _pick(QUOTAS, two), "on_resume": rule}
        return Request(method, f"/groups/{_pick(GROUPS, one)}{tail}", body, params)

    return ask


def _on_key(method: str, tail: str = "") -> Callable[..., Request]:
    def ask(me: Life, _: Life, one: int, _two: int) -> Request:
        return Request(method, f"/tenants/{me.name}/keys/{me.text(one)[3:19]}{tail}")

    return ask


def _foreign(me: Life, other: Life, one: int, two: int) -> Request:
    """Something that is the other's, or nobody's where the other is not there."""
    return _pick(
        (
            Request("GET", f"/timers/{other.timer(one)}"),
            Request("DELETE", f"/timers/{other.timer(one)}"),
            Request("POST", f"/timers/{other.timer(one)}/fire"),
            Request("GET", f"/timers/{other.timer(one)}/attempts"),
            Request("GET", f"/groups/default/timers/{other.timer(one)}"),
            Request("GET", f"/actions/{other.action(one)}"),
            Request("DELETE", f"/tenants/{me.name}/keys/{other.text(one)[3:19]}"),
            Request("GET", f"/tenants/{other.name}"),
            Request("GET", "/audit", params={"key": other.text(one)[3:19]}),
            Request("GET", "/timers", headers={"X-Tenant-ID": other.name}),
        ),
        one + two,
    )


VERBS: dict[str, Callable[[Life, Life, int, int], Request]] = {
    "create": lambda _me, _, one, two: Request("POST", "/timers", _timer(one, two)),
    "create under a key": lambda _me, _, one, two: Request(
        "POST", "/timers", _timer(one, two, timer_id=_pick(TEXTS, two))
    ),
    "create once": lambda _me, _, one, two: Request(
        "POST", "/timers", _timer(one, two), headers={"Idempotency-Key": f"once {two}"}
    ),
    "batch": lambda _me, _, one, two: Request(
        "POST",
        "/timers/batch",
        {"timers": [_timer(one, two), {}, _timer(two, one, timer_id="two")][: two + 1]},
    ),
    "put": _by_key("PUT"),
    "get by key": _by_key("GET"),
    "cancel by key": _by_key("DELETE"),
    "get": _on_timer("GET"),
    "update": _on_timer("PUT", body={"name": "new", "delay": "2h"}),
    "cancel": _on_timer("DELETE"),
    "pause": _on_timer("POST", "/pause"),
    "resume": _on_timer("POST", "/resume"),
    "fire": _on_timer("POST", "/fire"),
    "redrive": _on_timer("POST", "/redrive"),
    "attempts": _on_timer("GET", "/attempts"),
    "list": lambda _me, _, one, two: Request(
        "GET", "/timers", params={**_pick(LISTS, one * 6 + two), "limit": 1 + two % 3}
    ),
    "put group": _on_group("PUT"),
    "get group": _on_group("GET"),
    "pause group": _on_group("POST", "/pause"),
    "resume group": _on_group("POST", "/resume"),
    "delete group": _on_group("DELETE"),
    "list groups": lambda _me, _, _one, _two: Request("GET", "/groups"),
    "make key": lambda me, _, one, two: Request(
        "POST",
        f"/tenants/{me.name}/keys",
        {
            "name": f"k{one}",
            "role": _pick(("read", "write", "admin"), two),
            "groups": ["g"] if one == 0 else None,
            "expires_in": "20s" if one == 1 else None,
        },
    ),
    "get key": _on_key("GET"),
    "rotate key": _on_key("POST", "/rotate"),
    "revoke key": _on_key("DELETE"),
    "list keys": lambda me, _, _one, _two: Request("GET", f"/tenants/{me.name}/keys"),
    "use key": lambda me, _, one, two: Request(
        "GET", _pick(("/whoami", "/timers", "/groups", "/usage"), two), key=me.text(one)
    ),
    "set quotas": lambda me, _, one, _two: Request("QUOTAS", me.name, _pick(QUOTAS, one)),
    "see itself": lambda me, _, _one, _two: Request("GET", f"/tenants/{me.name}"),
    "usage": lambda _me, _, _one, _two: Request("GET", "/usage"),
    "audit": lambda _me, _, one, two: Request(
        "GET", "/audit", params={**_pick(AUDITS, one), "limit": 1 + two * 3}
    ),
    "export": lambda _me, _, one, _two: Request("GET", "/audit/export", params=_pick(AUDITS, one)),
    "act": lambda _me, _, one, two: Request(
        "POST", "/timers/actions", {**_pick(ACTIONS, one), "filter": _pick(FILTERS, two)}
    ),
    "get action": lambda me, _, one, _two: Request("GET", f"/actions/{me.action(one)}"),
    "cancel action": lambda me, _, one, _two: Request("DELETE", f"/actions/{me.action(one)}"),
    "list actions": lambda _me, _, _one, two: Request("GET", "/actions", params={"limit": 1 + two}),
    "deliver": lambda me, _, one, two: Request("DELIVER", me.timer(one), two % 2),
    "foreign": _foreign,
}


async def told(
    store: Store, steps: Iterable[Step], tenants: tuple[str, ...] = TENANTS
) -> dict[str, list[Any]]:
    """What each of these tenants is told in a history; steps of others are left out."""
    house = House(store)
    chance = Chance()
    lives = {name: Life(name) for name in TENANTS}
    answers: dict[str, list[Any]] = {name: [] for name in tenants}
    with chance.ruling():
        for name in tenants:
            chance.turn_to(name)
            lives[name].key = await house.api.make_key(name)
        for number, step in enumerate(steps, 1):
            if step.tenant in tenants:
                house.clock.advance(NOW + number * SECOND - house.clock.now())
                await house.work()
                chance.turn_to((number, step.tenant))
                me, other = (lives[name] for name in sorted(lives, key=step.tenant.__ne__))
                request = VERBS[step.verb](me, other, step.one, step.two)
                answers[step.tenant].append((step, await _done(house, me, request)))
                await house.work()
        await house.service.close()
    return answers


async def _done(house: House, me: Life, request: Request) -> Any:
    if request.method == "DELIVER":
        return await _delivered(house, request.path, is_well=bool(request.body))
    if request.method == "QUOTAS":
        answer = await house.api.put(f"/tenants/{request.path}", {"quotas": request.body})
        return tuple(answer)
    pages = []
    params = dict(request.params)
    for _ in range(MOST_PAGES):
        answer = await house.api.call(
            request.method,
            request.path,
            request.body,
            key=request.key or me.key,
            params=params,
            headers=request.headers,
        )
        assert answer.status < 500, (request, answer)
        pages.append(tuple(answer))
        me.remember(answer)
        is_envelope = answer.headers["content-type"] == "application/json"
        data = answer.data if is_envelope else None
        if not isinstance(data, dict) or data.get("next_cursor") is None:
            return pages
        params["cursor"] = data["next_cursor"]
    raise AssertionError("the list does not come to an end")


async def _delivered(house: House, id_: str, *, is_well: bool) -> str:
    """Do what an engine does with a timer that is due."""
    if (await house.store.get([id_]))[0] is None:
        return "nothing"
    try:
        await house.api.claim(id_)
    except IllegalTransition as refused:
        return str(refused)
    return str((await house.api.finish(id_, OK if is_well else FAILED)).status)
