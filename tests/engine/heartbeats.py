"""Nodes that beat, see each other, and leave a record of themselves."""

import msgspec

from duetime.nodes import NodeRecord


async def beat(clock, *members, times=1):
    for _ in range(times):
        clock.advance(2_000)
        for member in members:
            await member.step()


async def joined(clock, *members):
    """Let them all see each other."""
    await beat(clock, *members, times=4)


def record(stored):
    return msgspec.json.decode(stored.data, type=NodeRecord)
