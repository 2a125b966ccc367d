"""The layout of a database: over how many shards its timers are spread.

A key is looked for in the shard that it is hashed onto, so the number can never change. It is
written down by whoever comes first, and all others obey.
"""

import msgspec

from duetime import ids
from duetime.clock import Millis
from duetime.errors import ConfigurationError
from duetime.stores import Key, Record, Store

KIND = "layout"
_NAME = "shards"


class Layout(msgspec.Struct, frozen=True):
    """What was agreed on, and where timers are by it."""

    num_shards: int

    def key_of(self, tenant: str, group: str, timer_id: str) -> Key:
        """Where a timer with this key is."""
        shard = ids.key_shard(tenant, group, timer_id, self.num_shards)
        return Key(tenant, group, timer_id, shard)

    def new_id(self, now: Millis, tenant: str, group: str, timer_id: str | None) -> str:
        """An id in the shard of this key; timers that have none of the user's are spread evenly."""
        if timer_id is None:
            return ids.new_spread_id(now, self.num_shards)
        return ids.new_id(now, ids.key_shard(tenant, group, timer_id, self.num_shards))


_decode = msgspec.json.Decoder(Layout).decode


async def agree_on_shards(store: Store, wanted: int | None = None) -> int:
    """The number of shards of this database; what is wanted counts only if there is none yet.

    ConfigurationError if another number is wanted than the one that was agreed on.
    """
    while True:
        for record in await store.records(KIND):
            if record.name == _NAME:
                return _checked(_decode(record.data).num_shards, wanted)
        chosen = Layout(wanted or store.traits.num_shards)
        # Whether we or somebody else wrote it: what counts is what is there now.
        await store.put_record(
            None, Record(kind=KIND, name=_NAME, data=msgspec.json.encode(chosen))
        )


def _checked(agreed: int, wanted: int | None) -> int:
    if wanted is not None and wanted != agreed:
        raise ConfigurationError(
            f"NUM_SHARDS: the timers of this database are spread over {agreed} shards, and that "
            f"never changes: set it to {agreed}, or not at all"
        )
    return agreed
