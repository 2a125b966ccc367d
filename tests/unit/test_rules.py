"""The rules: what a node knows of tenants, keys and groups, and what a failure leaves behind."""

import asyncio

import msgspec
import pytest

from duetime.errors import StoreUnavailable, Unanswered
from duetime.stores import Record
from duetime.stores.memory import MemoryStore
from duetime.tenancy.group import Group
from duetime.tenancy.quotas import Quotas
from duetime.tenancy.rules import READ_ANEW_EVERY, Rules
from duetime.tenancy.target import Target, name_of
from duetime.tenancy.tenant import Tenant
from duetime.testing import FakeClock, FlakyStore
from tests.factories import NOW


class Failing(FlakyStore):
    """A store whose n-th write of a record fails, before it is done or after."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(store)
        self.fails: tuple[int, str] | None = None
        self.writes = 0

    async def put_record(self, old, new):
        self.writes += 1
        if self.fails == (self.writes, "before"):
            raise StoreUnavailable("as told")
        answer = await self.store.put_record(old, new)
        if self.fails == (self.writes, "after"):
            raise StoreUnavailable("as told")
        return answer


def make_group(**fields) -> Group:
    return Group(tenant="t", name="g", num_shards=1, created_at=NOW, updated_at=NOW, **fields)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(NOW)


@pytest.fixture
def store() -> Failing:
    return Failing(MemoryStore())


async def put(rules: Rules, group: Group) -> bool:
    return await rules.put(rules.groups, "t/g", rules.groups.kept("t/g"), group)


async def test_a_change_is_seen_by_whoever_looks(store, clock):
    """On this node at once, on others when they look; nothing is read while nothing changes."""
    here, there = Rules(store, clock), Rules(store, clock)
    await there.look()
    assert await put(here, make_group())
    assert here.group("t", "g") == make_group()
    assert there.group("t", "g") is None
    await there.look()
    assert there.group("t", "g") == make_group()
    store.calls.clear()
    await there.look()
    assert store.calls == ["records"]  # that of the revisions
    kept = there.groups.find("t/g")
    assert await put(here, make_group(title="new"))
    assert kept is there.groups.find("t/g")


async def test_who_lost_a_race_sees_who_won(store, clock):
    """A document is replaced only by whoever read its newest version."""
    here, there = Rules(store, clock), Rules(store, clock)
    await here.look()
    await there.look()
    assert await put(here, make_group(title="1"))
    assert not await put(there, make_group(title="2"))
    assert there.group("t", "g").title == "1"
    assert await put(there, make_group(title="2"))
    assert not await here.put(here.groups, "t/g", None, make_group())


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("write", [1, 2])
async def test_a_write_that_failed_half_way_can_be_repeated_at_once(store, clock, when, write):
    """Nobody is told for a minute that somebody else has changed it: it was they."""
    here, there = Rules(store, clock), Rules(store, clock)
    for rules in (here, there):
        await rules.look()
    store.fails = (write, when)
    with pytest.raises(StoreUnavailable):
        await put(here, make_group(title="1"))
    store.fails = None
    await here.look()
    if here.group("t", "g") is None:
        assert await put(here, make_group(title="1"))
    assert here.group("t", "g").title == "1"
    assert await put(here, make_group(title="2"))
    await there.look()
    assert there.group("t", "g").title == "2"


async def test_what_a_node_wrote_that_died_before_it_could_tell(store, clock):
    """Somebody finds it within a minute, and from then on all that look."""
    here, there = Rules(store, clock), Rules(store, clock)
    for rules in (here, there):
        await rules.look()
    dying = Rules(store, clock)
    store.fails = (2, "before")
    with pytest.raises(StoreUnavailable):
        await put(dying, make_group())
    store.fails = None
    await here.look()
    assert here.group("t", "g") is None
    clock.advance(round(1000 * READ_ANEW_EVERY))
    await here.look()
    assert here.group("t", "g") is not None
    there._read_at = clock.monotonic()  # it is not its turn to read everything
    await there.look()
    assert there.group("t", "g") is not None


async def test_looking_anew_sees_what_was_never_told(store, clock):
    """For those who must know it now."""
    rules = Rules(store, clock)
    await rules.look()
    store.fails = (2, "before")
    with pytest.raises(StoreUnavailable):
        await put(Rules(store, clock), make_group())
    store.fails = None
    await rules.look(anew=True)
    assert rules.group("t", "g") is not None


async def test_many_that_look_at_once_share_it(store, clock):
    """Those that ask while one is looking share the next look."""
    rules = Rules(store, clock)
    gate, real = asyncio.Event(), store.store.records

    async def slow(kind):
        await gate.wait()
        clock._monotonic += 1e-6  # time passes
        return await real(kind)

    store.store.records = slow
    looking = [asyncio.create_task(rules.look()) for _ in range(50)]
    await asyncio.sleep(0)
    gate.set()
    await asyncio.gather(*looking)
    assert store.calls.count("records") <= 2 * 4


async def test_what_is_being_made_goes_by_the_tenants_as_they_were(store, clock):
    """A node names no revision of the tenants while it still makes something by an older one."""
    rules = Rules(store, clock)
    await rules.look()
    acme = Tenant(name="acme", created_at=NOW, updated_at=NOW)
    before = rules.makes_by()
    with rules.making():
        with rules.making():
            assert await rules.put(rules.tenants, "acme", None, acme)
            with rules.making():
                assert rules.makes_by() == before
        assert rules.makes_by() == before
    assert rules.makes_by() == rules.tenants.revision > before


async def test_what_may_still_land_is_being_made(store, clock):
    """Also when nobody waits for it any more; but not if nobody will know what came of it."""
    rules = Rules(store, clock)
    await rules.look()
    before = rules.makes_by()
    ended = asyncio.get_running_loop().create_future()
    for doubt in (Unanswered("slow"), Unanswered("slower", ended=ended)):
        with pytest.raises(Unanswered), rules.making():
            raise doubt
    acme = Tenant(name="acme", created_at=NOW, updated_at=NOW)
    assert await rules.put(rules.tenants, "acme", None, acme)
    assert rules.makes_by() == before
    ended.set_result(None)
    await asyncio.sleep(0)
    assert rules.makes_by() == rules.tenants.revision > before


async def test_many_are_written_with_one_revision(store, clock):
    """And what somebody else has changed meanwhile stays as they want it."""
    here, there = Rules(store, clock), Rules(store, clock)
    for name in ("a", "b", "c"):
        await here.put(here.groups, name, None, make_group(title=name))
    await there.look()
    kept = here.groups.all()
    await there.put(there.groups, "b", there.groups.kept("b"), make_group(title="theirs"))
    store.writes = 0
    assert await here.put_all(here.groups, [(each.record.name, each, None) for each in kept]) == 2
    assert store.writes == 3 + 1
    await there.look()
    for rules in (here, there):
        assert [group.title for group in rules.groups] == ["theirs"]


async def test_news_that_get_lost_are_no_failure(store, clock):
    """What was written is written."""
    rules = Rules(store, clock)

    async def failing(_news):
        raise StoreUnavailable("as told")

    store.store.announce = failing
    assert await put(rules, make_group())


async def test_only_groups_that_are_there_hold_and_limit(store, clock):
    """One that was deleted while it was paused holds nothing, and its quotas count no more."""
    rules = Rules(store, clock)
    await put(rules, make_group(paused_at=NOW, quotas=Quotas(pending=1)))
    assert rules.held("t", "g") is not None
    assert set(rules.limited) == {"t/g"}
    await put(rules, make_group(paused_at=NOW, quotas=Quotas(pending=1), deleted_at=NOW))
    assert rules.held("t", "g") is None
    assert rules.limited == {}


@pytest.mark.parametrize("error", [StoreUnavailable("as told"), asyncio.CancelledError()])
async def test_a_look_that_is_interrupted_forgets_nothing_that_it_has_read(store, clock, error):
    """What was read before a later read failed is gone by at once, and for good."""
    here, there = Rules(store, clock), Rules(store, clock)
    await there.look()
    acme = Tenant(name="acme", created_at=NOW, updated_at=NOW, quotas=Quotas(pending=1))
    await here.put(here.tenants, "acme", None, acme)
    clock.advance(round(1000 * READ_ANEW_EVERY))
    real = store.store.records

    async def failing(kind):
        if kind == there.keys.kind:
            raise error
        return await real(kind)

    store.store.records = failing
    with pytest.raises(type(error)):
        await there.look()
    assert set(there.limited) == {"acme"}
    store.store.records = real
    await there.look()
    assert set(there.limited) == {"acme"}


@pytest.mark.parametrize("failures", [1, 3])
async def test_what_others_must_be_told_is_told_at_last(store, clock, failures):
    """However often the revision cannot be raised for a node that died before it could."""
    here, there = Rules(store, clock), Rules(store, clock)
    for rules in (here, there):
        await rules.look()
    store.fails = (2, "before")
    with pytest.raises(StoreUnavailable):
        await put(Rules(store, clock), make_group(paused_at=NOW))
    clock.advance(round(1000 * READ_ANEW_EVERY))
    for _ in range(failures):
        store.fails = (store.writes + 1, "before")
        with pytest.raises(StoreUnavailable):
            await here.look()
        assert here.held("t", "g") is not None
    store.fails = None
    await here.look()
    there._read_at = clock.monotonic()  # it is not its turn to read everything
    await there.look()
    assert there.held("t", "g") is not None


async def test_documents_of_which_one_cannot_be_read(store, clock):
    """All is as it was: what a node could read of them is not taken for all that there is."""
    rules = Rules(store, clock)
    await put(rules, make_group(paused_at=NOW))
    strange = Record(kind=rules.groups.kind, name="t/a", version=1, data=b"[]")
    await store.store.put_record(None, strange)
    with pytest.raises(msgspec.ValidationError):
        await rules.look(anew=True)
    assert rules.group("t", "g") is not None
    assert rules.held("t", "g") is not None


async def test_targets_are_found_by_tenant_and_name(store, clock):
    """One tenant's document says nothing of what others call; whoever looks sees it."""
    here, there = Rules(store, clock), Rules(store, clock)
    await there.look()
    name = name_of("t", "api.example.com:443")
    target = Target(
        tenant="t", name="api.example.com:443", paused_at=NOW, created_at=NOW, updated_at=NOW
    )
    assert await here.put(here.targets, name, None, target)
    before = there.targets.revision
    await there.look()
    assert there.target("t", "api.example.com:443") == target
    assert there.target("u", "api.example.com:443") is None
    assert there.target("t", "api.example.com:80") is None
    assert there.targets.revision > before
