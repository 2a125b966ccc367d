"""The fate of a write whose answer was lost: the server may still be at work, or not have begun.

Every write belongs to a session and has a number in it. A server works on one write of a session at
a time, and refuses a number that is lower than one it has seen. So one more write in the same
session, once a majority has it, ends the matter: those before it have been done, or never will be.
A new primary has that one too, and so the numbers; and what an old one does after it was deposed,
it must take back when it returns.

In a sharded cluster each shard knows only the numbers of its own writes. There nothing is settled:
who lost an answer is told that nobody knows.
"""

from pymongo.topology_description import TOPOLOGY_TYPE

from duetime.stores.mongodb.connection import Database, Session
from duetime.stores.mongodb.errors import ENGINE_ERRORS
from duetime.stores.mongodb.lane import limited

# Seconds to settle a write in.
SETTLE_WITHIN = 5.0

FENCES = "fences"


async def settle(database: Database, session: Session) -> bool:
    """See to it that nothing more comes of a session's writes; tells whether that is sure."""
    if database.client.topology_description.topology_type == TOPOLOGY_TYPE.Sharded:
        return False
    try:
        async with limited(SETTLE_WITHIN):
            await database[FENCES].update_one(
                {"_id": 0}, {"$inc": {"count": 1}}, upsert=True, session=session
            )
    except ENGINE_ERRORS:
        return False
    return True
