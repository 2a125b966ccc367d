"""The wallet: what timers name is opened once, shown as it is now, and to nobody else."""

import base64
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from duetime.auditing import Audit
from duetime.delivery import credential as delivery
from duetime.delivery.credential import Refusal
from duetime.stores import Record
from duetime.stores.memory import MemoryStore
from duetime.tenancy.caller import OPERATOR
from duetime.tenancy.credential import KIND, Credential
from duetime.tenancy.credential_requests import PutCredential
from duetime.tenancy.credentials import Credentials
from duetime.tenancy.rules import Rules
from duetime.tenancy.wallet import Wallet
from duetime.testing import FakeClock, RecordingSender
from duetime.timer import HttpCallback, NatsCallback, Timer
from duetime.vault import Vault
from tests.factories import NOW, make_spec, make_timer

SECRET = "marked-secret-of-the-bank"
OLD_KEY, NEW_KEY = bytes(32), bytes([1]) * 32
BEARER: dict[str, Any] = {"type": "bearer", "token": SECRET, "hosts": ["api.bank.example"]}


class CountingVault(Vault):
    """Counts what it opens."""

    opened = 0

    def open(self, sealed: str, purpose: str) -> bytes:
        self.opened += 1
        return super().open(sealed, purpose)


class House:
    """A store with credentials, and a wallet on one of its nodes."""

    def __init__(self, vault: Vault | None = None) -> None:
        self.clock = FakeClock(NOW)
        self.store = MemoryStore()
        self.vault = vault or CountingVault([OLD_KEY])
        self.rules = Rules(self.store, self.clock)
        self.credentials = self.use_cases(self.vault)
        self.wallet = Wallet(self.rules, self.vault)

    def use_cases(self, vault: Vault) -> Credentials:
        audit = Audit(self.store, self.clock, level="off")
        return Credentials(self.rules, RecordingSender(), self.clock, audit, vault)

    async def put(self, name: str = "bank", **body: Any) -> Credential:
        put, _ = await self.credentials.put(OPERATOR, name, PutCredential(**body))
        return put

    def shown(self, **timer: Any) -> delivery.Credential:
        found = self.wallet.of(naming(**timer))
        assert isinstance(found, delivery.Credential), found
        return found


def naming(name: str | None = "bank", **fields: Any) -> Timer:
    callback = HttpCallback(url="https://api.bank.example/", credential=name)
    return make_timer(spec=make_spec(callback=callback), **fields)


@pytest.fixture
def house() -> House:
    return House()


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (BEARER, {"Authorization": f"Bearer {SECRET}"}),
        (
            {**BEARER, "type": "basic", "token": None, "username": "u", "password": "p:ä"},
            {"Authorization": f"Basic {base64.b64encode('u:p:ä'.encode()).decode()}"},
        ),
        (
            {**BEARER, "type": "header", "token": None, "header": "x-api-KEY", "value": SECRET},
            {"X-Api-Key": SECRET},
        ),
    ],
)
async def test_what_is_shown(house: House, body: dict[str, Any], headers: dict[str, str]):
    """The headers by which receivers know these types; what is secret in them is hidden."""
    await house.put(**{name: value for name, value in body.items() if value is not None})
    shown = house.shown()
    assert shown.headers == headers
    assert all(any(text in value for text in shown.hidden) for value in headers.values())
    assert "api.bank.example" in shown.hosts
    assert "bank.example" not in shown.hosts


async def test_a_credential_is_opened_once(house: House):
    """Not for each attempt; when it has changed, once more."""
    await house.put(**BEARER)
    before = house.vault.opened
    first = house.shown()
    assert all(house.shown() is first for _ in range(100))
    await house.put("other", **BEARER)
    assert house.shown() is first
    assert house.vault.opened == before + 1
    await house.put(token="rotated")
    assert house.shown().headers == {"Authorization": "Bearer rotated"}


async def test_others_hear_of_a_rotation_when_they_look(house: House):
    """As of every change of the rules."""
    await house.put(**BEARER)
    there = House(house.vault)
    there.rules = Rules(house.store, house.clock)
    there.wallet = Wallet(there.rules, house.vault)
    assert there.wallet.of(naming()) == Refusal("does not exist any more", retryable=False)
    await there.wallet.look()
    assert there.shown().headers == {"Authorization": f"Bearer {SECRET}"}
    await house.put(token="rotated")
    await there.wallet.look()
    assert there.shown().headers == {"Authorization": "Bearer rotated"}


@pytest.mark.parametrize(
    "timer",
    [
        naming("other"),
        naming(tenant="acme"),
        naming(None),
        make_timer(spec=make_spec(callback=NatsCallback(topic="bank"))),
    ],
)
async def test_who_has_none(house: House, timer: Timer):
    """Another name, another tenant, or none."""
    await house.put(**BEARER)
    assert house.wallet.of(timer) == Refusal("does not exist any more", retryable=False)


async def test_a_deleted_one_is_shown_no_more(house: House):
    """Nor is it kept in memory when another is opened."""
    await house.put(**BEARER)
    house.shown()
    await house.credentials.delete(OPERATOR, "bank")
    assert house.wallet.of(naming()) == Refusal("does not exist any more", retryable=False)
    await house.put("other", **BEARER)
    house.shown(name="other")
    assert list(house.wallet._opened) == ["default/other"]


async def test_groups_hold_when_it_is_sent(house: House):
    """Also for timers that were made before they were set."""
    await house.put(**BEARER)
    house.shown(group="mail")
    await house.put(groups=["pay"])
    house.shown(group="pay")
    refusal = Refusal("is not for the group 'mail'", retryable=False)
    assert house.wallet.of(naming(group="mail")) == refusal


async def test_without_its_key_it_is_not_opened(house: House, caplog):
    """That may be tried again: another node may have the key. The log has it once."""
    await house.put(**BEARER)
    for keys in ([], [NEW_KEY]):
        caplog.clear()
        wallet = Wallet(house.rules, Vault(keys))
        why = "cannot be opened: it was sealed with a key that is not in SECRETS_KEY"
        for _ in range(2):
            assert wallet.of(naming()) == Refusal(why, retryable=True)
        [line] = caplog.messages
        assert line.endswith(f"'bank' {why}; callbacks that name it are not sent")


async def test_keys_rotate(house: House):
    """Any change seals a credential anew, with the newest key."""
    await house.put(**BEARER)
    both = Vault([NEW_KEY, OLD_KEY])
    house.credentials = house.use_cases(both)
    assert Wallet(house.rules, both).of(naming()) is not None
    put = await house.put()
    assert both.is_newest(put.sealed)
    house.wallet = Wallet(house.rules, Vault([NEW_KEY]))
    assert house.shown().headers == {"Authorization": f"Bearer {SECRET}"}


@pytest.mark.promise("no-secret")
@pytest.mark.parametrize(
    "change",
    [
        {"hosts": ("evil.example",)},
        {"hosts": ("api.bank.example", "evil.example")},
        {"allow_http": True},
        {"groups": frozenset({"evil"})},
        {"type": "header", "parts": {"header": "X-Evil"}},
        {"parts": {"token_url": "https://evil.example/"}},
        {"name": "evil"},
        {"tenant": "evil"},
    ],
)
async def test_who_writes_to_the_database_cannot_have_it_sent_elsewhere(
    house: House, change: dict[str, Any]
):
    """The secret is bound to all the rest, and does not open when that was changed."""
    evil = replace(await house.put(**BEARER), **change)
    record = Record(kind=KIND, name=f"{evil.tenant}/{evil.name}", version=9)
    record = replace(record, data=msgspec.json.encode(evil))
    old = next(iter(await house.store.records(KIND)))
    if old.name == record.name:
        record = replace(record, version=old.version + 1)
        assert await house.store.put_record(old, record)
    else:
        assert await house.store.put_record(None, replace(record, version=1))
    await house.rules.look(anew=True)
    group = next(iter(evil.groups)) if evil.groups else "default"
    refused = house.wallet.of(naming(evil.name, tenant=evil.tenant, group=group))
    why = "cannot be opened: it was altered, or moved from another place"
    assert refused == Refusal(why, retryable=True)


async def test_each_version_is_another_one(house: House):
    """Connections and tokens of one are not those of another, also after it was made anew."""
    body = {
        "type": "oauth2",
        "hosts": ["api.bank.example"],
        "token_url": "https://login.bank.example/",
        "client_id": "c",
        "client_secret": SECRET,
    }
    ids = set()
    for _ in range(2):
        await house.put(**body)
        ids.add(house.shown().grant.id)
        await house.put(client_secret=SECRET)
        ids.add(house.shown().grant.id)
        await house.credentials.delete(OPERATOR, "bank")
    assert len(ids) == 4
