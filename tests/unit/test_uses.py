"""Uses of keys: what is written down of them, and what is not kept for ever."""

from typing import Any

import pytest

from duetime.errors import StoreUnavailable
from duetime.stores.memory import MemoryStore
from duetime.tenancy.api_key import ApiKey, new_id
from duetime.tenancy.role import Role
from duetime.tenancy.rules import Rules
from duetime.tenancy.uses import KIND, MOST_FAILURES, Uses
from duetime.testing import FakeClock, FlakyStore

pytestmark = pytest.mark.promise("bounded-memory")


class Failing(FlakyStore):
    """A store that does not take the uses of some tenants."""

    fails: frozenset[str] = frozenset()

    async def put_record(self, old: Any, new: Any) -> bool:
        if (new or old).kind == KIND and (new or old).name in self.fails:
            self.calls.append(f"refused {(new or old).name}")
            raise StoreUnavailable("as told")
        return await self.store.put_record(old, new)


class Node:
    """What a node has of keys and their uses."""

    def __init__(self, store: Any) -> None:
        self.rules = Rules(store, FakeClock())
        self.uses = Uses(store, self.rules)

    async def make(self, tenant: str = "acme") -> ApiKey:
        await self.rules.look()
        about = {"name": "n", "role": Role.READ, "digest": "", "created_at": 1, "created_by": "c"}
        key = ApiKey(id=new_id(), tenant=tenant, **about)
        assert await self.rules.put(self.rules.keys, key.id, None, key)
        return key

    async def remove(self, key: ApiKey) -> None:
        await self.rules.look()
        kept = self.rules.keys.kept(key.id)
        assert await self.rules.put(self.rules.keys, key.id, kept, None)


@pytest.fixture
async def store() -> Failing:
    store = Failing(MemoryStore())
    await store.migrate()
    return store


async def test_keys_that_are_gone_are_left_out(store: Failing):
    """Whoever removed them, and on whichever node: the next write of their tenant is without."""
    here, there = Node(store), Node(store)
    gone, kept = await here.make(), await here.make()
    for key in (gone, kept):
        here.uses.note(key, 5)
    await here.uses.step()
    await there.remove(gone)
    there.uses.note(gone, 6)
    there.uses.note(kept, 7)
    await there.uses.step()
    assert await here.uses.of("acme") == {kept.id: 7}
    await there.remove(kept)
    here.uses.note(kept, 8)
    await here.uses.step()
    assert await store.records(KIND) == []


async def test_a_key_that_another_node_has_just_made_is_kept(store: Failing):
    """A node that has not heard of it drops nothing of what others know of it."""
    here, there = Node(store), Node(store)
    old = await here.make()
    await here.rules.look()
    new = await there.make()
    there.uses.note(new, 5)
    await there.uses.step()
    here.uses.note(old, 6)
    await here.uses.step()
    assert await here.uses.of("acme") == {new.id: 5, old.id: 6}


async def test_one_tenant_that_fails_does_not_stop_the_others(store: Failing):
    """They are written, and it is tried again the next time, with what has come since."""
    node = Node(store)
    keys = {tenant: await node.make(tenant) for tenant in ("acme", "globex", "initech")}
    for key in keys.values():
        node.uses.note(key, 5)
    store.fails = frozenset({"acme"})
    with pytest.raises(StoreUnavailable):
        await node.uses.step()
    assert {record.name for record in await store.records(KIND)} == {"globex", "initech"}
    store.fails = frozenset()
    await node.uses.step()
    assert await Node(store).uses.of("acme") == {keys["acme"].id: 5}


async def test_a_store_that_is_away_is_not_asked_for_every_tenant(store: Failing):
    """After a few failures the others wait; those that failed are the last to be tried again."""
    node = Node(store)
    names = [f"t{number}" for number in range(2 * MOST_FAILURES)]
    for name in names:
        node.uses.note(await node.make(name), 5)
    store.fails = frozenset(names)
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            await node.uses.step()
    assert [call for call in store.calls if call.startswith("refused")] == [
        f"refused {name}" for name in names
    ]
