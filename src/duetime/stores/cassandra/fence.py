"""The fence: what makes sure that a write without an answer is over.

A request that was lost from sight may still wait in a server that hangs, and begin when nobody
expects it. So each batch has a condition on the epoch of its partition. Whoever does not know what
became of his batch raises the epoch: once that is written, the batch has been made before or never
will be, and reading tells which.
"""

import asyncio

from duetime.stores.cassandra import statements as cql
from duetime.stores.cassandra.session import Session

SETTLE_WITHIN = 5.0  # seconds
PAUSE = 0.1  # seconds between two tries


def after(epoch: int | None) -> int:
    """The epoch that follows."""
    return 1 if epoch is None else epoch + 1


async def settle(session: Session, shard: int, epoch: int | None) -> bool:
    """See to it that nothing more comes of a batch of this epoch; tells whether that is sure."""
    try:
        async with asyncio.timeout(SETTLE_WITHIN):
            while True:
                try:
                    await session.run(cql.FENCE, (after(epoch), shard, epoch))
                except TimeoutError:
                    raise
                except Exception:  # noqa: BLE001 - whatever it was, it is not settled
                    await asyncio.sleep(PAUSE)
                else:
                    return True  # written, or else the epoch is another already
    except TimeoutError:
        return False
