"""What the tests of stories share: receivers that fail, one that is told, and what it is told."""

import json
from typing import Any

import msgspec

from duetime.requests import CallbackBody, CreateTimer, OnFailureBody
from duetime.searching import Filter, Part
from duetime.tenancy.caller import OPERATOR
from duetime.timer import Kind, Outcome
from tests.engine.conftest import Node

TOLD = {"callback": {"type": "http", "url": "https://told.example/hook"}}
GONE = Outcome(kind=Kind.HTTP, status_code=410, latency_ms=3, error="HTTP 410 Gone")
DOWN = Outcome(kind=Kind.HTTP, status_code=503, error="HTTP 503", retryable=True)
MINUTE = 60_000


def refusing(node: Node, outcome: Outcome = GONE) -> None:
    """Let all receivers fail but those that are told of failures."""
    send = node.sender.send

    async def choosy(timer: Any, is_mine: Any) -> Outcome:
        node.sender.answer = (
            outcome if "told" not in timer.spec.callback.url else Outcome(kind=Kind.OK)
        )
        return await send(timer, is_mine)

    node.sender.send = choosy


def told_in(node: Node) -> list[dict[str, Any]]:
    """The stories that were sent."""
    return [
        json.loads(bytes(sent.spec.callback.payload))
        for sent in node.sender.sent
        if "told" in sent.spec.callback.url
    ]


async def turn(node: Node) -> None:
    """Let all be done that is due: fired, told, and the stories sent."""
    for _ in range(3):
        await node.turn()
        await node.tell()


async def all_timers(node: Node) -> list[Any]:
    page = await node.service.search(OPERATOR, Filter(), Part(limit=100, descending=False))
    return page.timers


def on_failure_body() -> OnFailureBody:
    """The same as TOLD, as it is read."""
    return msgspec.convert(TOLD, OnFailureBody)


def other_content(**fields: Any) -> CreateTimer:
    """Other content for the key "k"."""
    callback = msgspec.convert({"type": "http", "url": "https://b.example/"}, CallbackBody)
    return CreateTimer(callback=callback, timer_id="k", **fields)
