"""What the tests of delivery share: a receiver, a sender that may call it, and timers."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

import pytest
import uvloop

from duetime.clock import SystemClock
from duetime.delivery.egress import Egress
from duetime.delivery.http import HttpSender
from duetime.delivery.terms import Terms, TermsOf
from duetime.timer import USUAL_SIGNATURES, HttpCallback, Progress, Signature, Spec, Status, Timer
from tests.delivery.receiver import Receiver

MakeSender = Callable[..., HttpSender]


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Sockets are the event loop's business: that is uvloop's, or asyncio's where it is missing."""
    return {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.new_event_loop}


def make_timer(
    url: str,
    *,
    attempt: int = 1,
    occurrence: int = 1,
    correlation_id: str = "order-4711",
    response_bytes: int = 0,
    response_headers: tuple[str, ...] = (),
    signatures: tuple[Signature, ...] = USUAL_SIGNATURES,
    **callback: Any,
) -> Timer:
    """A timer in mid-attempt."""
    return Timer(
        id="0197734e-7000-7abc-8def-0123456789ab",
        tenant="default",
        group="default",
        timer_id="remind",
        status=Status.EXECUTING,
        execute_at=1_750_000_000_000,
        wake_at=1_750_000_060_000,
        created_at=1_749_000_000_000,
        updated_at=1_750_000_000_000,
        spec=Spec(
            callback=HttpCallback(url=url, **callback),
            correlation_id=correlation_id,
            response_bytes=response_bytes,
            response_headers=response_headers,
            signatures=signatures,
        ),
        progress=Progress(attempt=attempt, occurrence=occurrence),
    )


def mine() -> bool:
    return True


def the_same_for_all(terms: Terms) -> TermsOf:
    """The terms of an installation in which no group has its own."""
    return lambda _timer: terms


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with Receiver() as receiver:
        yield receiver


@pytest.fixture
async def make_sender() -> AsyncIterator[MakeSender]:
    made: list[HttpSender] = []

    def make(
        allow: str = "",
        *,
        loopback: bool = True,
        public: str = "all",
        deny: str = "",
        clock: Any = None,
        secrets: Sequence[bytes] = (),
        **options: Any,
    ) -> HttpSender:
        egress = Egress.parse(allow, public=public, deny=deny, loopback=loopback)
        if secrets:
            options["terms"] = the_same_for_all(Terms(secrets=tuple(secrets)))
        made.append(HttpSender(clock or SystemClock(), egress, **options))
        return made[-1]

    yield make
    for sender in made:
        await sender.close()


@pytest.fixture
def sender(make_sender: MakeSender) -> HttpSender:
    return make_sender()
