"""Resealing: an older key can be retired, and nothing is lost on the way."""

import asyncio

import pytest
from msgspec.structs import replace

from duetime.auditing import Audit
from duetime.errors import Conflict, StoreUnavailable
from duetime.stores.memory import MemoryStore
from duetime.tenancy.caller import OPERATOR
from duetime.tenancy.credential import Credential
from duetime.tenancy.resealing import Resealing
from duetime.tenancy.rules import Rules
from duetime.tenancy.signing_secret import SigningSecret
from duetime.testing import FakeClock, FlakyStore
from duetime.vault import Vault
from tests.factories import NOW

OLD, NEW, LOST = (bytes([number]) * 32 for number in range(3))


class Node:
    """One that has these keys."""

    def __init__(self, store, *keys: bytes) -> None:
        clock = FakeClock(NOW)
        self.vault = Vault(keys)
        self.rules = Rules(store, clock)
        self.resealing = Resealing(self.rules, self.vault, Audit(store, clock))

    async def reseal(self):
        return await self.resealing.reseal(OPERATOR)

    async def make(self, id_: str, **fields) -> None:
        about = {"tenant": "t", "created_at": NOW, "created_by": "x", **fields}
        secret = SigningSecret(id=id_, sealed="", fingerprint="", **about)
        secret = secret.sealed_by(self.vault, key(id_))
        await self.rules.put(self.rules.signing_secrets, id_, None, secret)

    async def opened(self) -> dict[str, bytes]:
        await self.rules.look()
        return {
            secret.id: self.vault.open(secret.sealed, secret.purpose)
            for secret in self.rules.signing_secrets
        }


def key(id_: str) -> bytes:
    return id_.encode() * 8


@pytest.fixture
def store() -> FlakyStore:
    return FlakyStore(MemoryStore())


async def test_an_older_key_can_go(store):
    """Everything is there when only the newest key is left, also what has ended."""
    await Node(store, OLD).make("aaaa")
    await Node(store, OLD).make("bbbb", group="g", expires_at=NOW)
    both = Node(store, NEW, OLD)
    await both.make("cccc")
    assert await both.reseal() == (3, 2, [])
    everything = {id_: key(id_) for id_ in ("aaaa", "bbbb", "cccc")}
    assert await Node(store, NEW).opened() == everything
    assert await both.reseal() == (3, 0, [])
    [line, _] = await store.lines("default", None, 10, descending=False)
    assert (line.action, line.details) == ("secret.reseal", {"resealed": 2, "unreadable": 0})


async def test_what_no_key_opens_stays_as_it_is(store):
    """And is named: whoever finds its key again can still open it."""
    await Node(store, LOST).make("aaaa")
    await Node(store, OLD).make("bbbb")
    both = Node(store, NEW, OLD)
    assert await both.reseal() == (2, 1, [("signing_secret", "t", "aaaa")])
    everything = {id_: key(id_) for id_ in ("aaaa", "bbbb")}
    assert await Node(store, NEW, LOST).opened() == everything


async def test_without_a_key(store):
    """It says what is missing."""
    with pytest.raises(Conflict, match="the service has no SECRETS_KEY"):
        await Node(store).reseal()


async def test_somebody_changes_one_meanwhile(store):
    """Their change stays, and it is sealed anew all the same."""
    await Node(store, OLD).make("aaaa")
    both, other = Node(store, NEW, OLD), Node(store, OLD)
    await other.rules.look()
    real = store.store.put_record
    shelf = other.rules.signing_secrets

    async def put_record(before, after):
        if after is not None and after.kind == "signing secret":
            store.store.put_record = real
            kept = shelf.kept("aaaa")
            ending = SigningSecret(**{**fields_of(kept.document), "expires_at": NOW + 5})
            assert await other.rules.put(shelf, "aaaa", kept, ending)
        return await real(before, after)

    store.store.put_record = put_record
    assert await both.reseal() == (1, 1, [])
    alone = Node(store, NEW)
    assert await alone.opened() == {"aaaa": key("aaaa")}
    assert alone.rules.signing_secrets.find("aaaa").expires_at == NOW + 5


def fields_of(secret: SigningSecret) -> dict:
    return {name: getattr(secret, name) for name in secret.__struct_fields__}


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("write", [1, 2, 3, 4])
@pytest.mark.parametrize("error", [StoreUnavailable("as told"), asyncio.CancelledError()])
async def test_one_that_was_cut_short_is_repeated(store, when, write, error):
    """Everything can be opened with both keys at every moment, and in the end with the newest."""
    for id_ in ("aaaa", "bbbb", "cccc"):
        await Node(store, OLD).make(id_)
    both = Node(store, NEW, OLD)
    real, writes = store.store.put_record, 0

    async def put_record(before, after):
        nonlocal writes
        writes += 1
        if (writes, when) == (write, "before"):
            raise error
        answer = await real(before, after)
        if (writes, when) == (write, "after"):
            raise error
        return answer

    store.store.put_record = put_record
    with pytest.raises(type(error)):
        await both.reseal()
    store.store.put_record = real
    everything = {id_: key(id_) for id_ in ("aaaa", "bbbb", "cccc")}
    assert await Node(store, OLD, NEW).opened() == everything
    await Node(store, NEW, OLD).reseal()
    assert await Node(store, NEW).opened() == everything


async def test_credentials_are_sealed_anew_as_well(store):
    """Whatever is sealed: else the older key could not go."""
    about = {"tenant": "t", "type": "bearer", "hosts": ("a.example",), "created_by": "x"}
    times = {"created_at": NOW, "updated_at": NOW}
    for name, keys in (("bank", OLD), ("lost", LOST)):
        bare = Credential(name=name, **about, **times)
        sealed = Vault([keys]).seal(b"token", bare.purpose)
        rules = Node(store, OLD).rules
        await rules.put(rules.credentials, f"t/{name}", None, replace(bare, sealed=sealed))
    both = Node(store, NEW, OLD)
    assert await both.reseal() == (2, 1, [("credential", "t", "lost")])
    alone = Node(store, NEW)
    await alone.rules.look()
    bank = alone.rules.credentials.find("t/bank")
    assert alone.vault.open(bank.sealed, bank.purpose) == b"token"
