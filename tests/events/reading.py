"""What is in a stream of events, and whether that is what it must be."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import msgspec
from nats.aio.client import Client
from nats.js import api

from duetime.events.view import encode
from duetime.timer import Event

AT_ONCE = 500


class Read(NamedTuple):
    """A message of the stream."""

    subject: str
    headers: dict[str, str]
    data: bytes

    @property
    def id(self) -> str:
        return self.headers["Nats-Msg-Id"]

    @property
    def event(self) -> dict[str, Any]:
        return msgspec.json.decode(self.data)


async def read_stream(client: Client, name: str) -> list[Read]:
    """All that is in a stream, in its order."""
    jetstream = client.jetstream()
    count = (await jetstream.stream_info(name)).state.messages
    config = api.ConsumerConfig(ack_policy=api.AckPolicy.NONE, inactive_threshold=30)
    consumer = await jetstream.add_consumer(name, config)
    pulling = await jetstream.pull_subscribe_bind(consumer.name, name)
    found: list[Read] = []
    while len(found) < count:
        part = await pulling.fetch(min(AT_ONCE, count - len(found)), timeout=10)
        found += [Read(each.subject, dict(each.headers or {}), each.data) for each in part]
    await pulling.unsubscribe()
    return found


def check_published(found: Sequence[Read], written: Iterable[Event]) -> int:
    """Hold a stream against what was written; how many messages were repeats.

    Every event is there, and nothing else; a repeat has the same id, and says the same; and of each
    timer, all come in order, without a gap in the versions.
    """
    by_id: dict[str, bytes] = {}
    first: list[Read] = []
    for each in found:
        if each.id in by_id:
            assert by_id[each.id] == each.data
        else:
            by_id[each.id] = each.data
            first.append(each)
    assert by_id == {event.id: encode(event) for event in written}
    of_timers: dict[str, list[Read]] = {}
    for each in first:
        of_timers.setdefault(each.event["timer"], []).append(each)
    for mine in of_timers.values():
        assert [each.id for each in mine] == sorted(each.id for each in mine)
        versions = [version for version, _ in groupby(each.event["version"] for each in mine)]
        assert versions == list(range(1, len(versions) + 1))
    return len(found) - len(first)
