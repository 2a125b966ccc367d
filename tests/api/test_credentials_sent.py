"""Credentials on their way: from the API through the store and the wallet to a receiver."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from duetime.delivery.egress import Egress
from duetime.delivery.http import HttpSender
from duetime.tenancy.wallet import Wallet
from duetime.timer import Kind, Outcome
from tests.api.client import Api, http_callback, timer_body
from tests.api.conftest import VAULT
from tests.delivery.receiver import Receiver

BODY = {"type": "bearer", "token": "first", "hosts": ["127.0.0.1"], "allow_http": True}


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with Receiver() as receiver:
        yield receiver


@pytest.fixture
async def carrier(api: Api) -> AsyncIterator[HttpSender]:
    wallet = Wallet(api.service.rules, VAULT)
    sender = HttpSender(api.clock, Egress.parse("", loopback=True), credentials=wallet)
    yield sender
    await sender.close()


async def test_a_timer_is_sent_with_what_its_credential_is_now(
    api: Api, carrier: HttpSender, receiver: Receiver
):
    """Replaced, deleted and made anew under a timer that was made before."""

    async def sent() -> Outcome:
        [timer] = await api.store.get([made["id"]])
        return await carrier.send(timer, lambda: True)

    def authorization() -> Any:
        return receiver.requests[-1].headers["authorization"]

    assert (await api.put("/credentials/bank", BODY)).status == 201
    callback = http_callback(url=receiver.url(), credential="bank")
    made = (await api.post("/timers", timer_body(callback=callback))).data
    assert (await sent()).ok
    assert authorization() == "Bearer first"
    await api.put("/credentials/bank", {"token": "second"})
    assert (await sent()).ok
    assert authorization() == "Bearer second"
    await api.put("/credentials/bank", {"hosts": ["other.example"], "token": "second"})
    assert (await sent()).error == "the credential 'bank' may not be sent to 127.0.0.1"
    await api.delete("/credentials/bank")
    failed = await sent()
    assert (failed.kind, failed.retryable) == (Kind.CREDENTIAL, False)
    assert failed.error == "the credential 'bank' does not exist any more"
    await api.put("/credentials/bank", {**BODY, "token": "third"})
    assert (await sent()).ok
    assert authorization() == "Bearer third"
    assert len(receiver.requests) == 3


async def test_an_attempt_without_it_is_told(api: Api):
    """The timer and its log have the kind and the sentence, and can be found by it."""
    await api.put("/credentials/bank", BODY)
    url = "http://127.0.0.1/"
    timer = await api.create(callback=http_callback(url=url, credential="bank"))
    await api.claim(timer["id"])
    text = "the credential 'bank' does not exist any more"
    await api.finish(timer["id"], Outcome(kind=Kind.CREDENTIAL, error=text))
    shown = await api.shown(timer["id"])
    assert (shown["status"], shown["last_error"]) == ("failed", text)
    [attempt] = (await api.get(f"/timers/{timer['id']}/attempts")).data["attempts"]
    assert (attempt["kind"], attempt["error"]) == ("credential", text)
    found = (await api.get("/timers", outcome="credential")).data["timers"]
    assert [each["id"] for each in found] == [timer["id"]]
