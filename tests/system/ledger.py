"""A load of creates and cancels, and a ledger of what was acknowledged and what arrived."""

import asyncio
import random
from collections import Counter
from contextlib import suppress
from datetime import datetime
from typing import Any

from duetime.cli.receiver import Arrival
from duetime.client import AsyncClient, ServiceError, ServiceUnreachable
from duetime.clock import from_datetime


class Ledger:
    """What the service acknowledged, and what the receiver got."""

    def __init__(self) -> None:
        self.created: dict[str, int] = {}  # id -> execute_at, from an acknowledged create
        self.canceled: set[str] = set()  # ids, from an acknowledged cancel
        self.doubtful: set[str] = set()  # a cancel was asked for and never answered
        self.arrivals: list[Arrival] = []

    def note_created(self, timer: dict[str, Any]) -> None:
        at = datetime.fromisoformat(timer["execute_at"])
        self.created[timer["id"]] = from_datetime(at)

    @property
    def arrived(self) -> set[str]:
        return {arrival.headers["x-timer-id"] for arrival in self.arrivals}

    @property
    def repeated(self) -> list[tuple[str, str]]:
        """Deliveries that came with the same attempt number more than once."""
        deliveries = Counter(
            (arrival.headers["webhook-id"], arrival.headers["x-timer-attempt"])
            for arrival in self.arrivals
        )
        return [delivery for delivery, count in deliveries.items() if count > 1]

    @property
    def early(self) -> list[Arrival]:
        """Deliveries before the time that was acknowledged, whatever they say themselves."""
        return [
            arrival
            for arrival in self.arrivals
            if arrival.at < self.created.get(arrival.headers["x-timer-id"], 0)
        ]

    @property
    def numbered(self) -> list[tuple[str, str, int]]:
        """Timers, webhook-ids and attempt numbers, in the order in which they arrived."""
        return [
            (a.headers["x-timer-id"], a.headers["webhook-id"], int(a.headers["x-timer-attempt"]))
            for a in self.arrivals
        ]

    @property
    def expected(self) -> set[str]:
        return set(self.created) - self.canceled - self.doubtful


async def put_under_load(
    client: AsyncClient, ledger: Ledger, url: str, dice: random.Random, over: asyncio.Event
) -> None:
    """Create timers that are due now or soon, one by one and in batches; cancel some of them."""
    callback = {"type": "http", "url": url, "payload": {"n": 1}}
    while not over.is_set():
        with suppress(ServiceUnreachable, ServiceError):
            if dice.random() < 0.1:
                batch = [
                    {"delay": f"{dice.randrange(2_000)}ms", "callback": callback} for _ in range(20)
                ]
                answer = await client.create_batch(batch)
                for item in answer["timers"]:
                    ledger.note_created(item["data"])
            timer = await client.create(delay=f"{dice.randrange(2_000)}ms", callback=callback)
            ledger.note_created(timer)
            if dice.random() < 0.4:
                await cancel(client, ledger, timer["id"])
        await asyncio.sleep(dice.random() / 100)


async def cancel(client: AsyncClient, ledger: Ledger, id_: str) -> None:
    try:
        await client.cancel(id_)
    except ServiceUnreachable:
        ledger.doubtful.add(id_)
    except ServiceError as error:
        if error.status >= 500:
            ledger.doubtful.add(id_)
    else:
        ledger.canceled.add(id_)
