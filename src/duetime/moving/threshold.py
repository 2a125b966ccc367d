"""The threshold of a store: a node and a move into it that come in one moment do not both come in.

Each shows itself first, and looks for the other one then: a node writes its record and looks for
a journal, a move writes its journal and looks for records of nodes. Reads of records see whatever
was acknowledged before, so whoever shows itself last sees the other. It may be that both do, and
both go away again. A node that stood still for so long that a move took it for dead looks again
when it shows itself again (``Engine``'s ``readmit``).
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress

from duetime.errors import StoreError
from duetime.moving.journal import check_no_move
from duetime.stores import Store


async def join_unless_moving(
    store: Store, *, come: Callable[[], Awaitable[None]], go: Callable[[], Awaitable[None]]
) -> None:
    """Let a node come, unless a move into this store was begun: then ConfigurationError.

    Looking before as well keeps a node that is started too early from ending the move.
    """
    await check_no_move(store)
    try:
        await come()
        await check_no_move(store)
    except BaseException:
        with suppress(StoreError):
            await go()
        raise
