"""Small documents: a partition for each kind, and a condition on the version.

They have a session of their own and wait for less, so that a node that is busy does not pass for
dead.
"""

from duetime.stores import Record
from duetime.stores.cassandra.session import Session

# Seconds for a heartbeat: a third of what a node is given by default before it is taken for dead.
QUICK_WITHIN = 3.0

_READ = "SELECT name, version, data FROM duetime.records WHERE kind = ?"
_PUT = "UPDATE duetime.records SET version = ?, data = ? WHERE kind = ? AND name = ? IF version = ?"
_REMOVE = "DELETE FROM duetime.records WHERE kind = ? AND name = ? IF version = ?"


class Records:
    """The documents."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def read(self, kind: str) -> list[Record]:
        """Every document of a kind, by name."""
        return [
            Record(kind=kind, name=name, version=version, data=data)
            for name, version, data in await self._session.run(_READ, (kind,))
        ]

    async def put(self, old: Record | None, new: Record | None) -> bool:
        """Store, replace or remove a document, if the stored one is still the old one."""
        version = None if old is None else old.version
        if new is not None:
            values = (new.version, new.data, new.kind, new.name, version)
            rows = await self._session.run(_PUT, values)
        elif old is not None:
            rows = await self._session.run(_REMOVE, (old.kind, old.name, version))
        else:
            return False
        return bool(rows[0][0])
