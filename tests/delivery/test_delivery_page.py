"""docs/delivery.md, held against what is sent and what comes of it."""

import asyncio
import base64
import hmac
import json
import os
import re
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec import Raw

from duetime.clock import SystemClock
from duetime.delivery import headers
from duetime.delivery.http import HttpSender
from duetime.drafts import to_retry_policy
from duetime.requests import RetryPolicyBody
from duetime.retry import delay_after
from duetime.timer import HttpCallback, Kind, Timer
from tests.delivery.conftest import MakeSender, make_timer, mine
from tests.ports import free_port

PAGE = (Path(__file__).parents[2] / "docs" / "delivery.md").read_text()
KEY, OTHER = b"k" * 32, b"o" * 32
SECRETS = ",".join(f"whsec_{base64.b64encode(key).decode()}" for key in (OTHER, KEY))


class PythonReceiver:
    """The receiver of the page, as it stands there but for its port."""

    def __init__(self, port: int, process: asyncio.subprocess.Process) -> None:
        self.url = f"http://127.0.0.1:{port}/hook"
        self._process = process

    async def work(self) -> str:
        """The next work that it does."""
        assert self._process.stdout is not None
        return (await asyncio.wait_for(self._process.stdout.readline(), 20)).decode()


@pytest.fixture
async def receiver() -> AsyncIterator[PythonReceiver]:
    [code] = re.findall(r"```python\n(import base64.*?)```", PAGE, re.DOTALL)
    port = free_port()
    assert '("127.0.0.1", 9000)' in code
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        code.replace("9000", str(port)),
        env={**os.environ, "WEBHOOK_SECRETS": SECRETS},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            assert process.returncode is None
            await asyncio.sleep(0.02)
        else:
            writer.close()
            break
    yield PythonReceiver(port, process)
    process.kill()
    await process.wait()


def order(url: str, number: int, **fields: int) -> Timer:
    return make_timer(url, payload=Raw(b'{"order": %d}' % number), **fields)


async def test_the_python_receiver(receiver: PythonReceiver, make_sender: MakeSender):
    """It does what is genuine, once, and nothing else."""
    sender = make_sender(secrets=[KEY])
    assert (await sender.send(order(receiver.url, 1), mine)).kind is Kind.OK
    assert (await sender.send(order(receiver.url, 1, attempt=2), mine)).kind is Kind.OK
    assert (await sender.send(order(receiver.url, 2, occurrence=2), mine)).kind is Kind.OK
    assert await receiver.work() == 'the work: {"order": 1}\n'
    assert await receiver.work() == 'the work: {"order": 2}\n'


@pytest.mark.parametrize("secrets", [[b"w" * 32, OTHER], [OTHER, b"w" * 32]])
async def test_one_of_two_secrets(
    receiver: PythonReceiver, make_sender: MakeSender, secrets: list[bytes]
):
    """While they rotate, either is enough, on both sides."""
    outcome = await make_sender(secrets=secrets).send(order(receiver.url, 1), mine)
    assert outcome.status_code == 200


class _Wrong(SystemClock):
    def __init__(self, by: int) -> None:
        self._by = by

    def now(self) -> int:
        return super().now() + self._by


@pytest.mark.parametrize("by", [-400_000, 400_000])
async def test_one_that_is_old_or_ahead(receiver: PythonReceiver, make_sender: MakeSender, by: int):
    """Is refused, and not tried again."""
    sender: HttpSender = make_sender(secrets=[KEY], clock=_Wrong(by))
    outcome = await sender.send(order(receiver.url, 1), mine)
    assert (outcome.status_code, outcome.retryable) == (401, False)


async def test_what_is_forged(receiver: PythonReceiver, make_sender: MakeSender):
    """With another secret, or without any."""
    for secrets in ([b"w" * 32], []):
        outcome = await make_sender(secrets=secrets).send(order(receiver.url, 1), mine)
        assert outcome.status_code == 401


def test_every_header_is_told():
    """By its name."""
    callback = HttpCallback(url="https://example.com", payload=Raw(b"{}"))
    timer = make_timer(callback.url, signatures=("webhook", "timer"))
    for name in headers.build(timer, callback, int(time.time()), [KEY]):
        assert f"\n{name}: " in PAGE or f"| `{name}` |" in PAGE, name


def test_the_example_is_signed_as_it_is_told():
    """By the way that the page tells: it is a request that was sent."""
    [example] = re.findall(r"```\n(POST .*?)\n```", PAGE, re.DOTALL)
    head, _, body = example.partition("\n\n")
    fields = dict(line.split(": ", 1) for line in head.splitlines()[1:])
    assert fields["Content-Length"] == str(len(body))
    key = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo=")
    signed = f"{fields['Webhook-Id']}.{fields['Webhook-Timestamp']}.{body}".encode()
    mac = base64.b64encode(hmac.digest(key, signed, "sha256")).decode()
    assert fields["Webhook-Signature"] == f"v1,{mac}"


def test_the_example_of_retries():
    """Each wait is as long as it is told, at least and at most."""
    [text] = re.findall(r"With the policy `(\{.*?\})`", PAGE)
    policy = to_retry_policy(RetryPolicyBody(**json.loads(text)))
    told = re.findall(r"^\| (\d) \| (\d+) to (\d+) s", PAGE, re.MULTILINE)
    assert [int(attempt) for attempt, _, _ in told] == list(range(2, policy.max_attempts + 1))
    for attempt, least, most in told:
        waits = [delay_after(policy, int(attempt) - 1, luck) for luck in (0.0, 1.0)]
        assert waits == [1000 * int(least), 1000 * int(most)]
