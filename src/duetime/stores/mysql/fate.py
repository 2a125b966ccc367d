"""The fate of a statement whose connection was lost: the server may still be at work on it.

Whoever reads again must not do so before that has ended. So the session that was left behind is
ended, by another one. Each session holds a lock of its own name from its first moment, and the
server lets go of it when all else of the session has been rolled back: when nobody has the lock,
what the session was asked has been done or never will be. (A session's number would not do: after
a restart of the server it may be another's.) All that only if it is the same server: behind one
address there may be several.
"""

import asyncio

from asyncmy import errors

from duetime.stores.mysql.address import Address
from duetime.stores.mysql.errors import ENGINE_ERRORS, number_of
from duetime.stores.mysql.session import Session, Whereabouts, connect

# Seconds to end a session in, and between two looks whether it is gone.
SETTLE_WITHIN = 5.0
LOOK_EVERY = 0.02

_NO_SUCH_SESSION = 1094


async def settle(address: Address, lost: Whereabouts) -> bool:
    """See to it that nothing more comes of a session; tells whether that is sure."""
    if not lost.lock:
        return False
    try:
        async with asyncio.timeout(SETTLE_WITHIN):
            session = await connect(address)
            try:
                if session.whereabouts.server != lost.server:
                    return False
                while holder := await _holder(session, lost.lock):
                    await _end(session, holder)
                    await asyncio.sleep(LOOK_EVERY)
            finally:
                session.close()
    except ENGINE_ERRORS:
        return False
    return True


async def _holder(session: Session, lock: str) -> int:
    [(number,)] = await session.rows(f"SELECT IS_USED_LOCK('{lock}')")
    return int(number or 0)


async def _end(session: Session, number: int) -> None:
    try:
        await session.ask(f"KILL {number}")
    except errors.MySQLError as error:
        if number_of(error) != _NO_SUCH_SESSION:
            raise
