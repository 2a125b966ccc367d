"""The terms of a group: what its callbacks are signed with now, and never in silence otherwise."""

import logging

import msgspec
import pytest

from duetime.stores.memory import MemoryStore
from duetime.tenancy import terms
from duetime.tenancy.group import Group
from duetime.tenancy.requests import CreateSigningSecret, RotateSigningSecret
from duetime.tenancy.rules import Rules
from duetime.tenancy.signing_secret import SigningSecret
from duetime.tenancy.terms import GroupTerms
from duetime.testing import FakeClock
from duetime.vault import Vault
from tests.factories import NOW, make_timer

pytestmark = pytest.mark.promise("signatures-fit")

VAULT = Vault([bytes(32)])
OWN = (b"the installation's own secret 1!",)


class Opening(Vault):
    """A vault that counts how often it is opened."""

    def __init__(self, *keys: bytes) -> None:
        super().__init__(keys)
        self.openings = 0

    def open(self, sealed: str, purpose: str) -> bytes:
        self.openings += 1
        return super().open(sealed, purpose)


class Desk:
    """The rules with their terms."""

    def __init__(self, vault: Vault = VAULT) -> None:
        self.clock = FakeClock(NOW)
        self.rules = Rules(MemoryStore(), self.clock)
        self.terms = GroupTerms(self.rules, vault, self.clock, installation=OWN)

    async def put(self, id_: str, group: str | None = None, **fields) -> SigningSecret:
        """A secret whose key is made of its id."""
        about = {"tenant": "t", "created_at": NOW, "created_by": "operator", **fields}
        secret = SigningSecret(id=id_, group=group, sealed="", fingerprint="", **about)
        secret = secret.sealed_by(VAULT, key(id_))
        await self.write(secret)
        return secret

    async def write(self, secret: SigningSecret) -> None:
        shelf = self.rules.signing_secrets
        await self.rules.put(shelf, secret.id, shelf.kept(secret.id), secret)

    async def put_group(self, name: str = "g", **fields) -> None:
        about = {"num_shards": 1, "created_at": NOW, "updated_at": NOW, **fields}
        group = Group(tenant="t", name=name, **about)
        groups, place = self.rules.groups, f"t/{name}"
        await self.rules.put(groups, place, groups.kept(place), group)

    def secrets(self, group: str = "g", tenant: str = "t") -> tuple[bytes, ...]:
        asked = self.terms(make_timer(tenant=tenant, group=group))
        assert asked.unsignable is None
        return asked.secrets

    def problem(self, group: str = "g") -> str | None:
        asked = self.terms(make_timer(tenant="t", group=group))
        assert asked.secrets == () or asked.unsignable is None
        return asked.unsignable


def key(id_: str) -> bytes:
    return id_.encode() * 8


@pytest.fixture
def desk() -> Desk:
    return Desk()


async def test_whose_secrets_sign(desk: Desk):
    """Those of the group; else those of the tenant; else those of the installation."""
    assert desk.secrets() == OWN
    await desk.put_group()
    await desk.put("aaaa")
    assert desk.secrets() == (key("aaaa"),)
    await desk.put("bbbb", "g", group_since=NOW)
    assert desk.secrets() == (key("bbbb"),)
    assert desk.secrets("other") == (key("aaaa"),)
    assert desk.secrets(tenant="another") == OWN
    shelf = desk.rules.signing_secrets
    for id_ in ("bbbb", "aaaa"):
        await desk.rules.put(shelf, id_, shelf.kept(id_), None)
    assert desk.secrets() == OWN


async def test_several_at_once(desk: Desk):
    """The newest first."""
    await desk.put("aaaa", "default", created_at=NOW + 1)
    await desk.put("bbbb", "default", created_at=NOW + 2)
    await desk.put("cccc", "default", created_at=NOW)
    assert desk.secrets("default") == (key("bbbb"), key("aaaa"), key("cccc"))


async def test_an_end_is_obeyed_by_the_clock(desk: Desk):
    """Without anybody having to write anything: to the millisecond, one after the other."""
    await desk.put_group()
    await desk.put("aaaa", "g", group_since=NOW, created_at=NOW + 1, expires_at=NOW + 2_000)
    await desk.put("bbbb", "g", group_since=NOW, expires_at=NOW + 1_000)
    await desk.put("cccc", expires_at=NOW + 3_000)
    assert desk.secrets() == (key("aaaa"), key("bbbb"))
    desk.clock.advance(999)
    assert desk.secrets() == (key("aaaa"), key("bbbb"))
    desk.clock.advance(1)
    assert desk.secrets() == (key("aaaa"),)
    desk.clock.advance(1_000)
    assert desk.secrets() == (key("cccc"),)
    desk.clock.advance(1_000)
    assert desk.secrets() == OWN


async def test_one_that_is_being_revoked(desk: Desk):
    """Nothing is signed with it from the first mark on."""
    secret = await desk.put("aaaa")
    await desk.write(msgspec.structs.replace(secret, revoked_at=NOW))
    assert desk.secrets() == OWN


async def test_a_group_of_the_same_name_has_other_secrets(desk: Desk):
    """Nor has one that was deleted, though its document is there still."""
    await desk.put_group()
    await desk.put("aaaa", "g", group_since=NOW)
    assert desk.secrets() == (key("aaaa"),)
    await desk.put_group(deleted_at=NOW + 1)
    assert desk.secrets() == OWN
    await desk.put_group(created_at=NOW + 2)
    assert desk.secrets() == OWN


async def test_they_are_opened_once():
    """Not at every attempt, but when the rules change or one of them ends."""
    vault = Opening(bytes(32))
    desk = Desk(vault)
    await desk.put("aaaa", expires_at=NOW + 1_000)
    await desk.put("bbbb")
    for _ in range(100):
        assert len(desk.secrets()) == 2
    assert vault.openings == 2
    assert desk.terms(make_timer(tenant="t", group="g")) is desk.terms(
        make_timer(tenant="t", group="g")
    )
    desk.clock.advance(1_000)
    for _ in range(100):
        assert desk.secrets() == (key("bbbb"),)
    assert vault.openings == 3


async def test_other_nodes_hear_of_it(desk: Desk):
    """With their next look at the rules, of a new one as of one that is gone."""
    there = Rules(desk.rules._store, desk.clock)
    terms_there = GroupTerms(there, VAULT, desk.clock, installation=OWN)
    timer = make_timer(tenant="t", group="g")
    assert terms_there(timer).secrets == OWN
    await desk.put("aaaa")
    await there.look()
    assert terms_there(timer).secrets == (key("aaaa"),)
    shelf = desk.rules.signing_secrets
    await desk.rules.put(shelf, "aaaa", shelf.kept("aaaa"), None)
    await there.look()
    assert terms_there(timer).secrets == OWN


@pytest.mark.promise("no-secret")
async def test_no_repr_has_a_secret(desk: Desk):
    """Whatever prints one of these, in a log or a traceback, prints no secret."""
    secret = await desk.put("aaaa")
    asked = desk.terms(make_timer(tenant="t", group="g"))
    text = "whsec_hunter2"
    shown = [
        secret,
        asked,
        desk.terms,
        VAULT,
        CreateSigningSecret(secret=text),
        RotateSigningSecret(secret=text),
    ]
    for each in map(repr, shown):
        assert "aaaaaaaa" not in each
        assert "hunter2" not in each


async def test_what_is_kept_is_bounded(desk: Desk, monkeypatch):
    """However many groups there are."""
    monkeypatch.setattr(terms, "MOST_KEPT", 10)
    for number in range(35):
        assert desk.secrets(f"g{number}") == OWN
    assert len(desk.terms._kept) <= 10


@pytest.mark.parametrize("keys", [(), (b"another key of 32 bytes, all new",)])
async def test_a_secret_whose_key_is_gone(keys, caplog):
    """Nothing takes its place; who reads the error knows what to do; the log has it once."""
    desk = Desk(Vault(keys))
    await desk.put_group()
    await desk.put("aaaa")
    secret = await desk.put("bbbb", "g", group_since=NOW)
    with caplog.at_level(logging.DEBUG):
        for _ in range(3):
            assert desk.problem() == (
                "the signing secret bbbb cannot be opened: it was sealed with a key that is not in "
                "SECRETS_KEY; put its key back into SECRETS_KEY, or revoke the secret"
            )
            await desk.put_group(title="the rules have changed")
    [line] = [record.getMessage() for record in caplog.records]
    assert line.startswith("t/g: the signing secret bbbb cannot be opened")
    assert line.endswith("until then its callbacks are not sent")
    assert secret.sealed not in line
    shelf = desk.rules.signing_secrets
    for id_ in ("bbbb", "aaaa"):
        assert desk.problem() is not None
        await desk.rules.put(shelf, id_, shelf.kept(id_), None)
    assert desk.secrets() == OWN


async def test_one_of_several_that_cannot_be_opened():
    """It is not left out: a receiver may know just that one."""
    desk = Desk()
    await desk.put("aaaa")
    old = await desk.put("bbbb", expires_at=NOW + 1_000)
    await desk.write(msgspec.structs.replace(old, sealed=Vault([b"x" * 32]).seal(b"", old.purpose)))
    assert "the signing secret bbbb cannot be opened" in str(desk.problem())
    desk.clock.advance(1_000)
    assert desk.secrets() == (key("aaaa"),)


@pytest.mark.parametrize("field", ["id", "tenant", "group"])
async def test_a_secret_that_was_moved(desk: Desk, field: str):
    """Whoever can write to the database cannot have one sign for another."""
    secret = await desk.put("aaaa", "default")
    moved = {"id": "bbbb", "tenant": "u", "group": None}[field]
    await desk.write(msgspec.structs.replace(secret, **{field: moved}))
    tenant = "u" if field == "tenant" else "t"
    shelf = desk.rules.signing_secrets
    if field == "id":
        await desk.rules.put(shelf, "aaaa", shelf.kept("aaaa"), None)
    asked = desk.terms(make_timer(tenant=tenant, group="default"))
    assert asked.secrets == ()
    assert "it was altered, or moved from another place" in str(asked.unsignable)
