"""Timers, read: by their ids, by their keys, and from the items that say only where they lie."""

from collections.abc import Iterable, Sequence

from duetime import ids
from duetime.errors import StoreUnavailable
from duetime.stores import Key
from duetime.stores.dynamodb import batches, items, keys
from duetime.stores.dynamodb.calls import Calls, Item
from duetime.stores.dynamodb.keys import Place
from duetime.timer import Timer

_LOOKS = 3  # at a timer whose content was replaced while it was read
_MOST_HINTS = 100_000
_PARTS_AT_ONCE = 4  # parts of contents in one answer: they may be large


class Timers:
    """Reads timers whole."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        # Where the timers with keys of the users' lie, which never changes: it saves a look.
        self._hints: dict[str, Place] = {}

    def hint(self, id_: str, place: Place) -> None:
        """Say where a timer lies."""
        if place.place != id_:
            if len(self._hints) >= _MOST_HINTS:
                self._hints.clear()
            self._hints[id_] = place

    async def get(self, wanted: Sequence[str], tenant: str | None = None) -> list[Timer | None]:
        """Timers by id, which may be any texts; of one tenant, or of all."""
        places = {
            id_: self._hints.get(id_) or keys.of_id(ids.shard_of(id_), id_)
            for id_ in wanted
            if ids.is_id(id_)
        }
        found = await self.items(places)
        if tenant is not None:
            found = {id_: item for id_, item in found.items() if items.tenant_of(item) == tenant}
            await self._look_twice({id_: places[id_] for id_ in places.keys() - found.keys()})
        timers = await self.whole(found)
        return [timers.get(id_) for id_ in wanted]

    async def _look_twice(self, strange: dict[str, Place]) -> None:
        """Ask once more for what was asked for once: so often, one asks for another's with a key.

        Else the time would tell that there is such a timer.
        """
        once = [
            place
            for id_, place in strange.items()
            if id_ not in self._hints or self._hints[id_] == place
        ]
        await batches.read(self._calls, once)

    async def items(self, places: dict[str, Place]) -> dict[str, Item]:
        """The items of timers, by id, each from its place or from where that one points to."""
        read = await batches.read(self._calls, places.values())
        pointing = {
            id_: Place(place.partition, read[place]["k"]["S"])
            for id_, place in places.items()
            if place in read and "k" in read[place]
        }
        read |= await batches.read(self._calls, pointing.values())
        found = {}
        for id_, place in (places | pointing).items():
            item = read.get(place)
            if item is not None and items.is_timer(item) and items.id_of(item) == id_:
                found[id_] = item
                self.hint(id_, place)
        return found

    async def get_by_key(self, wanted: Sequence[Key]) -> list[Timer | None]:
        """Timers by key."""
        candidates = [_candidates(key) for key in wanted]
        read = await batches.read(self._calls, (place for places in candidates for place in places))
        # By an id as the key, one may come across another's timer: what that carries is not read.
        tenants = {key.tenant for key in wanted}
        found = {
            items.id_of(item): item
            for item in read.values()
            if items.is_timer(item) and items.tenant_of(item) in tenants
        }
        timers = await self.whole(found)
        by_key = {(timer.tenant, timer.group, timer.timer_id): timer for timer in timers.values()}
        return [by_key.get((key.tenant, key.group, key.timer_id)) for key in wanted]

    async def whole(self, found: dict[str, Item]) -> dict[str, Timer]:
        """The timers of items, by id, with the contents that lie beside them."""
        timers: dict[str, Timer] = {}
        for _ in range(_LOOKS):
            places = {id_: items.parts_of(item) for id_, item in found.items()}
            read = await batches.read(
                self._calls,
                (place for parts in places.values() for place in parts),
                at_once=_PARTS_AT_ONCE,
            )
            again: dict[str, Place] = {}
            for id_, item in found.items():
                content = [read[place]["b"]["S"] for place in places[id_] if place in read]
                if len(content) < len(places[id_]):
                    again[id_] = Place.of(item)
                else:
                    timers[id_] = items.to_timer(item, "".join(content) or None)
            if not again:
                return timers
            found = await self.items(again)
        for id_, item in found.items():
            if "x" not in item:
                raise StoreUnavailable(f"DynamoDB: the content of timer {id_} is not there")
        return timers  # The others are finished and being dropped: their contents went first.

    async def of(self, found: Iterable[Item]) -> dict[str, Item]:
        """The items of timers that these items are or point to, by id."""
        known = {items.id_of(item): item for item in found if items.is_timer(item)}
        pointing = {
            item["sk"]["S"]: Place(item["pk"]["S"], item["k"]["S"]) for item in found if "k" in item
        }
        return known | await self.items(pointing)


def _candidates(key: Key) -> list[Place]:
    """Where the timer with a key may lie: one without a key of the user's has its id as the key."""
    places = [keys.of_key(key.shard, key.tenant, key.group, key.timer_id)]
    if ids.is_id(key.timer_id):
        places.append(keys.of_id(key.shard, key.timer_id))
    return places
