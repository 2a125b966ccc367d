"""Limits set on nodes of a test, and what of them is seen."""

import asyncio
from typing import Any

import msgspec

from duetime.tenancy.caller import OPERATOR, Caller
from duetime.tenancy.limits import Limits
from duetime.tenancy.requests import CreateTenant, PutGroup, UpdateTenant
from duetime.tenancy.target import Target, name_of
from duetime.timer import DEFAULT_TENANT
from tests.engine.conftest import Node


async def limit_group(node: Node, name: str = "default", **limits: Any) -> None:
    body = msgspec.convert({"limits": limits or None}, PutGroup)
    await node.service.groups.put(OPERATOR, name, body)


async def limit_tenant(node: Node, **limits: Any) -> None:
    body = msgspec.convert({"limits": limits or None}, UpdateTenant)
    await node.service.tenants.update(OPERATOR, DEFAULT_TENANT, body)


async def limit_target(node: Node, url: str, **limits: Any) -> None:
    now, rules = node.clock.now(), node.rules
    target = Target(
        tenant=DEFAULT_TENANT, name=url, limits=Limits(**limits), created_at=now, updated_at=now
    )
    name = name_of(DEFAULT_TENANT, url)
    assert await rules.put(rules.targets, name, rules.targets.kept(name), target)


async def make_tenant(node: Node, name: str) -> Caller:
    """Another tenant, and somebody who makes timers for it."""
    await node.service.tenants.create(OPERATOR, msgspec.convert({"name": name}, CreateTenant))
    return Caller(name)


def to(number: int) -> dict[str, str]:
    """A callback to one of many receivers."""
    return {"type": "http", "url": f"https://r{number}.example/"}


class Watched:
    """Counts how many are under way at once through these nodes, and when each was begun."""

    def __init__(self, *nodes: Node) -> None:
        self.at: list[float] = []
        self.under_way = self.most = 0
        self.release = asyncio.Event()
        self.release.set()
        for node in nodes:
            self._watch(node)

    def _watch(self, node: Node) -> None:
        send = node.sender.send

        async def watched(timer, is_mine):
            self.at.append(round(node.clock.monotonic(), 6))
            self.under_way += 1
            self.most = max(self.most, self.under_way)
            await self.release.wait()
            self.under_way -= 1
            return await send(timer, is_mine)

        node.sender.send = watched
