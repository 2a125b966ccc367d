"""Keys with a running service: used everywhere, wrongly too, and then looked for everywhere."""

import asyncio
import sqlite3
from base64 import b64encode
from collections.abc import Iterator
from contextlib import AsyncExitStack, closing
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from duetime.cli.receiver import Arrival, running_receiver
from tests.system.service import API_KEY, Answer, ServiceProcess, running_service
from tests.waiting import eventually, until

pytestmark = [pytest.mark.slow, pytest.mark.promise("no-secret")]

SIGNING = b64encode(b"another-signing-secret-32-bytes!").decode()
CARRIED = ["a-receivers-own-token", "a-receivers-payload"]
BODIES: dict[str, Any] = {
    "POST /timers": {"delay": "1h", "callback": {"type": "http", "url": "http://127.0.0.1:9/"}},
    "PUT /timers/{id}": {"name": "n"},
    "POST /groups": {"name": "new"},
    "PUT /groups/{group}": {"title": "t"},
    "POST /tenants": {"name": "new"},
    "PUT /tenants/{tenant}": {"title": "t"},
    "POST /tenants/{tenant}/keys": {"name": "n", "role": "read"},
    "POST /timers/actions": {"action": "pause", "filter": {"group": "g"}},
}
BODIES["PUT /groups/{group}/timers/{timer_id}"] = BODIES["POST /timers"]
BODIES["POST /timers/batch"] = {"timers": [BODIES["POST /timers"], {"delay": 1}]}


class Known(NamedTuple):
    """A tenant's keys, and what its things are called."""

    keys: dict[str, str]  # texts, by what has become of each
    names: dict[str, str]

    @property
    def secrets(self) -> list[str]:
        return [key.split("_", 2)[2] for key in self.keys.values()]


async def furnished(service: ServiceProcess, receivers: list[int]) -> Known:
    """A tenant with keys of all kinds, and one of everything."""

    async def made(path: str, body: Any = None, **how: Any) -> Any:
        answer = await service.call("POST", path, body, **how)
        assert answer.status in {200, 201, 202}, answer
        return answer.data

    await made("/tenants", {"name": "acme"})
    path = "/tenants/acme/keys"
    keys = {
        name: (await made(path, {"name": name, "role": "admin", **more}))["key"]
        for name, more in (("good", {}), ("revoked", {}), ("expired", {"expires_in": "1s"}))
    }
    keys["rotated"] = (await made(f"{path}/{keys['good'][3:19]}/rotate"))["key"]
    assert (await service.call("DELETE", f"{path}/{keys['revoked'][3:19]}")).status == 200
    key = {"key": keys["good"]}
    for port in receivers:
        callback = {
            "type": "http",
            "url": f"http://127.0.0.1:{port}/",
            "headers": {"Authorization": f"Bearer {CARRIED[0]}"},
            "payload": {"card": CARRIED[1]},
            "timeout": "1s",
        }
        retry = {"max_attempts": 1}
        body = {"delay": "0s", "callback": callback, "retry_policy": retry, "group": "g"}
        timer = await made("/timers", body, **key)
    action = await made("/timers/actions", BODIES["POST /timers/actions"], **key)
    spare = await made(path, {"name": "spare", "role": "read"}, **key)
    secret = await made("/signing-secrets", **key)
    await made("/credentials", {"name": "c", "type": "bearer", "token": "t", "hosts": ["h"]}, **key)
    names = {
        "id": timer["id"],
        "timer_id": timer["timer_id"],
        "group": "g",
        "tenant": "acme",
        "key": spare["id"],
        "secret": secret["id"],
        "credential": "c",
        "target": "a.example",
        "action": action["id"],
        "node": "n",
    }
    return Known({**keys, "spare": spare["key"]}, names)


def misused(route: str, key: str, names: dict[str, str]) -> Iterator[tuple[str, Any, dict]]:
    """Paths, bodies and headers in which a key stands where none belongs."""
    method, path = route.split()
    body = BODIES.get(route)
    right = path.format_map(names)
    yield f"{right}?api_key={key}", body, {}
    yield f"{right}?{key}=1", body, {}
    yield f"{right}?status={key}&limit={key}&cursor={key}&order={key}", body, {}
    yield right, body, {key: "x"}
    yield right, body, {"X-Tenant-ID": key}
    yield right, body, {"If-Match": key}
    yield f"/{key}{right}", body, {}
    if method in {"POST", "PUT"}:
        for wrong in ({key: 1}, [key], key, {"name": {key: key}}, {"role": key, "action": key}):
            yield right, wrong, {}
        yield right, f'{{"name": "{key}'.encode(), {}
    # Whoever calls a group, a timer or a target by their key, has called it so.
    for name in names if method != "PUT" else ():
        if f"{{{name}}}" in path and name != "target":
            yield path.format_map({**names, name: key}), body, {}


async def told(service: ServiceProcess, known: Known) -> list[Answer]:
    """All that is answered, at every route, to good keys, bad ones, and good ones put wrongly."""
    described = (await service.call("GET", "/openapi.json")).envelope["paths"]
    routes = [f"{method.upper()} {path}" for path, each in described.items() for method in each]
    off = known.keys["good"][:-2] + ("AA" if not known.keys["good"].endswith("AA") else "BB")
    # Of these one at each route: whoever comes with many is made to wait.
    wrong_keys = cycle([off, known.keys["revoked"], known.keys["expired"]])
    answers = []
    for route in sorted(routes, key=lambda route: route.startswith("DELETE")):
        method, path = route.split()
        right, body = path.format_map(known.names), BODIES.get(route)
        takes_none = path in {"/healthz", "/readyz"}
        for key in (next(wrong_keys), API_KEY[:-1], API_KEY + "x"):
            refused = await service.call(method, right, body, key=key)
            assert takes_none or refused.status == 401, (route, refused)
            answers.append(refused)
        for key in (known.keys["good"], API_KEY):
            for wrong, sent, headers in misused(route, key, known.names):
                as_acme = {"X-Tenant-ID": "acme"} if key == API_KEY else {}
                answer = await service.call(method, wrong, sent, key=key, **(as_acme | headers))
                assert answer.status < 500, (route, wrong, answer)
                answers.append(answer)
        answer = await service.call(method, right, body, key=known.keys["rotated"])
        assert answer.status < 500, (route, answer)
        answers.append(answer)
    return answers


async def no_request(service: ServiceProcess, text: str) -> None:
    """Send what is no request at all."""
    reader, writer = await asyncio.open_connection("127.0.0.1", service.port)
    writer.write(f"{text} {text}\r\n{text}\r\n\r\n".encode())
    await reader.read()
    writer.close()
    await writer.wait_closed()


async def failed(service: ServiceProcess, count: int) -> bool:
    of_acme = {"X-Tenant-ID": "acme"}
    answer = await service.call("GET", "/timers?status=failed", **of_acme)
    return answer.data["total"] == count


@pytest.mark.parametrize("form", ["text", "json"])
async def test_a_key_is_seen_once(tmp_path: Path, form: str):
    """When it is made, and never again: in no answer, log, audit or row, however it is misused."""
    arrivals: list[Arrival] = []
    settings = {"LOG_LEVEL": "debug", "LOG_FORMAT": form, "SIGNING_SECRETS": f"whsec_{SIGNING}"}
    settings["SECRETS_KEY"] = b64encode(b"another-secrets-key-of-32-bytes!").decode()
    async with AsyncExitStack() as stack:
        good = await stack.enter_async_context(running_receiver("127.0.0.1", 0, arrivals.append))
        async with running_receiver("127.0.0.1", 0, arrivals.append) as killed:
            pass
        service = await stack.enter_async_context(running_service(tmp_path, **settings))
        known = await furnished(service, [good, killed])
        await eventually(lambda: failed(service, 1), "the timer of the receiver that was killed")
        await until(lambda: len(arrivals) == 1, "the other one to be delivered")
        await asyncio.sleep(1)  # the time of one key, which is a second
        answers = await told(service, known)
        await no_request(service, known.keys["good"])
        for path in ("/audit", "/audit/export", "/tenants/acme/keys", "/openapi.json", "/docs"):
            answers.append(await service.call("GET", path, **{"X-Tenant-ID": "acme"}))
        assert await service.stop() == 0
        log = service.log.read_text()
    secrets = known.secrets
    assert [each for each in answers if any(key.encode() in each.body for key in secrets)] == []
    assert "stopped" in log  # it was written to its end
    everything = [*secrets, API_KEY, API_KEY[:-1], SIGNING, *CARRIED]
    assert [secret for secret in everything if secret in log] == []
    with closing(sqlite3.connect(service.database)) as connection:
        stored = "\n".join(connection.iterdump())
    assert CARRIED[0] in stored  # or else nothing is shown here
    assert [secret for secret in (*secrets, API_KEY, SIGNING) if secret in stored] == []
