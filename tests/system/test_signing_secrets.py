"""Signing secrets with running services: they sign what receivers can check, and are never seen."""

import asyncio
import sqlite3
from base64 import b64encode
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from duetime import webhooks
from duetime.cli.receiver import Arrival, running_receiver
from tests.ports import free_port
from tests.system.service import COMMAND, ServiceProcess, running_service
from tests.waiting import eventually, until

pytestmark = [pytest.mark.slow, pytest.mark.promise("no-secret")]

OLDER, NEWER = (b64encode(bytes([number]) * 32).decode() for number in (1, 2))
BROUGHT = webhooks.encode_secret(b"a-secret-that-somebody-brought-!")
INSTALLATION = webhooks.encode_secret(b"the-secret-of-the-installation-!")
PATH = "/signing-secrets"


async def made(service: ServiceProcess, path: str, body: Any = None) -> Any:
    answer = await service.call("POST", path, body)
    assert answer.status in {200, 201}, answer
    return answer.data


async def fire(service: ServiceProcess, port: int, group: str = "default", **fields: Any) -> Any:
    callback = {"type": "http", "url": f"http://127.0.0.1:{port}/", "payload": {"a": "ü"}}
    return await made(
        service, "/timers", {"delay": "0s", "group": group, "callback": callback, **fields}
    )


async def failures(service: ServiceProcess) -> int:
    return (await service.call("GET", "/timers?status=failed")).data["total"]


def signers(arrival: Arrival, *secrets: str) -> list[str]:
    """Which of these secrets a callback is signed with, in both ways."""
    found = []
    for secret in secrets:
        try:
            webhooks.verify(arrival.body, arrival.headers, secret)
            webhooks.verify_body_signature(arrival.body, arrival.headers, secret)
        except webhooks.NoMatchingSignature:
            continue
        found.append(secret)
    return found


def stored(database: Path) -> bytes:
    """All that is in the files of a database, and in its rows."""
    files = [path.read_bytes() for path in database.parent.glob(f"{database.name}*")]
    with closing(sqlite3.connect(database)) as connection:
        return b"".join(files) + "\n".join(connection.iterdump()).encode()


async def misused(service: ServiceProcess, secret: str, id_: str) -> list[bytes]:
    """What is answered to those who put a secret where none belongs."""
    plain = secret.removeprefix("whsec_").replace("/", "_")
    asked: list[tuple[str, str, Any]] = [
        ("DELETE", f"{PATH}/whsec_{plain}", None),
        ("POST", f"{PATH}/whsec_{plain}/rotate", {}),
        ("GET", f"{PATH}?group=whsec_{plain}", None),
        ("GET", f"{PATH}?whsec_{plain}=1", None),
        ("POST", PATH, {"group": secret}),
        ("POST", PATH, {secret: 1}),
        ("POST", PATH, {"secret": secret + "\n\u00fc"}),
        ("POST", PATH, {"secret": [secret]}),
        ("POST", PATH, {"expires_in": secret}),
        ("POST", PATH, {"expires_at": secret}),
        ("POST", PATH, f'{{"secret": "{secret}'.encode()),
        ("POST", f"{PATH}/{id_}/rotate", {"valid_for": secret}),
    ]
    answers = [await service.call(method, path, body) for method, path, body in asked]
    assert all(400 <= answer.status < 500 for answer in answers), answers
    return [answer.body for answer in answers]


@pytest.mark.promise("signatures-fit")
@pytest.mark.parametrize("form", ["text", "json"])
async def test_a_secret_is_seen_once(tmp_path: Path, form: str):
    """It signs, and is in no answer but its own, nor in a log, the audit, an error or a row."""
    arrivals: list[Arrival] = []
    settings = {
        "LOG_LEVEL": "debug",
        "LOG_FORMAT": form,
        "SECRETS_KEY": OLDER,
        "SIGNING_SECRETS": INSTALLATION,
    }
    async with (
        running_receiver("127.0.0.1", 0, arrivals.append) as good,
        running_receiver("127.0.0.1", 0, arrivals.append, status=500) as bad,
        running_service(tmp_path, **settings) as service,
    ):
        signatures = {"signatures": ["webhook", "timer"]}
        for group in ("carts", "mails", "default"):
            assert (await service.call("PUT", f"/groups/{group}", signatures)).status < 300
        await fire(service, good)
        await until(lambda: len(arrivals) == 1, "what the installation signs")
        own = (await made(service, PATH, {"group": "carts"}))["secret"]
        whole = await made(service, PATH, {"secret": BROUGHT})
        rotated = (await made(service, f"{PATH}/{whole['id']}/rotate"))["secret"]
        for group in ("carts", "mails"):
            await fire(service, good, group)
        await fire(service, bad, "carts")
        await fire(service, free_port(), "carts")
        await until(lambda: len(arrivals) == 4, "all that can be delivered")
        await eventually(lambda: is_count(failures(service), 2), "two timers that failed")
        secrets = [own, BROUGHT, rotated]
        bodies = [each for text in secrets for each in await misused(service, text, whole["id"])]
        paths = (PATH, "/audit", "/audit/export", "/timers", "/groups", "/openapi.json")
        bodies += [(await service.call("GET", path)).body for path in paths]
        await service.kill()
        await service.start()
        await fire(service, good, "carts")
        await until(lambda: len(arrivals) == 5, "what was signed after a crash")
        assert (await service.call("DELETE", f"{PATH}/{whole['id']}")).status == 200
        assert await service.stop() == 0
        log = service.log.read_bytes()
    everything = (INSTALLATION, *secrets)
    assert signers(arrivals[0], *everything) == [INSTALLATION]
    by_group = [signers(each, *everything) for each in arrivals[1:]]
    assert sorted(by_group) == sorted([[own], [own], [own], [BROUGHT, rotated]])
    copy = tmp_path / "copy" / "duetime.db"
    copy.parent.mkdir()
    await copied(service.database, copy)
    for text in everything:
        plain = text.removeprefix("whsec_").encode()
        for where in (log, stored(service.database), stored(copy), *bodies):
            assert plain not in where
            assert webhooks.decode_secret(text) not in where
    for key in (OLDER.encode(), bytes([1]) * 32):
        assert key not in log + stored(service.database)
    assert b"carts" in stored(copy)  # or else nothing is shown here
    assert b"signing secret" in stored(copy)


async def is_count(asked: Any, count: int) -> bool:
    return await asked == count


async def copied(source: Path, target: Path) -> None:
    """Copy a database into another, with the command for it."""
    process = await asyncio.create_subprocess_exec(
        COMMAND,
        "copy",
        f"sqlite:///{source}",
        f"sqlite:///{target}",
        cwd=target.parent,
        env={"PATH": ""},
        stdout=asyncio.subprocess.DEVNULL,
    )
    assert await process.wait() == 0


@pytest.mark.promise("signatures-fit")
async def test_a_key_that_is_gone_and_comes_back(tmp_path: Path):
    """What cannot be signed waits, and says why; with the key it arrives, signed as ever."""
    arrivals: list[Arrival] = []
    settings = {"SIGNING_SECRETS": INSTALLATION}
    async with running_receiver("127.0.0.1", 0, arrivals.append) as port:
        async with running_service(tmp_path, SECRETS_KEY=OLDER, **settings) as service:
            own = (await made(service, PATH))["secret"]
        async with running_service(tmp_path, **settings) as service:
            retry = {"max_attempts": 1000, "initial_interval": "1s", "backoff_multiplier": 1}
            timer = await fire(service, port, retry_policy=retry)
            path = f"/timers/{timer['id']}"
            await eventually(lambda: has_failed(service, path), "an attempt that is not sent")
            shown = (await service.call("GET", path)).data
            assert shown["status"] in {"pending", "executing"}
            assert "not in SECRETS_KEY; put its key back" in shown["last_error"]
            assert (await service.call("POST", PATH)).status == 409
            log = service.log.read_text()
        assert arrivals == []
        assert log.count("cannot be opened") == 1
        keys = f"{NEWER},{OLDER}"
        async with running_service(tmp_path, SECRETS_KEY=keys, **settings) as service:
            await until(lambda: len(arrivals) == 1, "the callback")
            assert (await made(service, "/secrets/reseal"))["resealed"] == 1
        async with running_service(tmp_path, SECRETS_KEY=NEWER, **settings) as service:
            await fire(service, port)
            await until(lambda: len(arrivals) == 2, "one more, when the older key is gone")
    assert {webhooks.verify(each.body, each.headers, own).id for each in arrivals}


async def has_failed(service: ServiceProcess, path: str) -> bool:
    attempts = (await service.call("GET", f"{path}/attempts")).data["attempts"]
    return bool(attempts) and all(each["kind"] == "signing" for each in attempts)
