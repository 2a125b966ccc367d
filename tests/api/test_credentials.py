"""Credentials: made, shown without their secret, changed and deleted, and who may use which."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption
from msgspec import convert
from msgspec.structs import replace

from duetime.stores.memory import MemoryStore
from duetime.tenancy import certificates as inspecting
from duetime.tenancy.credential import KIND
from duetime.tenancy.credential_requests import CreateCredential, PutCredential
from duetime.tenancy.credentials import MOST_CREDENTIALS
from duetime.testing import FlakyStore
from duetime.vault import Vault
from tests import certificates
from tests.api.client import Api, http_callback, timer_body
from tests.api.conftest import MakeApi

SECRET = "marked-secret-of-the-bank"
HOSTS = ["api.bank.example"]
BEARER = {"type": "bearer", "token": SECRET, "hosts": HOSTS}
BASIC = {"type": "basic", "username": "duetime", "password": SECRET, "hosts": HOSTS}
HEADER = {"type": "header", "header": "X-Api-Key", "value": SECRET, "hosts": HOSTS}
OAUTH2 = {
    "type": "oauth2",
    "token_url": "https://login.bank.example/token",
    "client_id": "duetime",
    "client_secret": SECRET,
    "scope": "payments",
    "audience": "bank",
    "auth_style": "body",
    "hosts": HOSTS,
}
URL = "https://api.bank.example/pay"

AUTHORITY = certificates.make("An Authority")
CLIENT = certificates.make("duetime", AUTHORITY, is_client=True)
OTHER = certificates.make("other", AUTHORITY, is_client=True)
MTLS = {
    "type": "mtls",
    "certificate": CLIENT.pem + AUTHORITY.pem,
    "private_key": CLIENT.key_pem,
    "authorities": AUTHORITY.pem,
    "hosts": HOSTS,
}
EVERY = {"bearer": BEARER, "basic": BASIC, "header": HEADER, "oauth2": OAUTH2, "mtls": MTLS}
SECRETS = ("token", "password", "value", "private_key", "client_secret")


def calling(url: str = URL, **fields: Any) -> dict[str, Any]:
    return timer_body(callback=http_callback(url=url, credential="bank", **fields))


@pytest.mark.promise("no-secret")
@pytest.mark.parametrize("kind", EVERY)
async def test_a_credential_is_shown_without_its_secret(api: Api, kind: str):
    """Everything else comes back; the secret is nowhere, neither in answers nor in the store."""
    body = EVERY[kind]
    made = await api.put("/credentials/bank", body)
    assert made.status == 201
    answers = [
        made,
        await api.get("/credentials/bank"),
        await api.get("/credentials"),
        await api.put("/credentials/bank", {"groups": ["g"]}),
        await api.get("/audit"),
        await api.post("/credentials", {**body, "name": "bank"}),
        await api.delete("/credentials/bank"),
    ]
    shown = answers[1].data
    assert {name: shown[name] for name in body if name not in SECRETS} == {
        name: value for name, value in body.items() if name not in SECRETS
    }
    assert not set(SECRETS) & set(shown)
    hidden = next(body[name] for name in SECRETS if name in body)
    lines = hidden.splitlines()[1:-1] or [hidden]
    told = b"".join(answer.body for answer in answers)
    stored = b"".join(record.data for record in await api.store.records(KIND))
    assert not any(line.encode() in told + stored for line in lines)


async def test_the_use_cases(api: Api):
    """Made once, listed by name, changed in part, deleted."""
    assert (await api.post("/credentials", {**BEARER, "name": "b"})).status == 201
    assert (await api.post("/credentials", {**BASIC, "name": "a"})).status == 201
    again = await api.post("/credentials", {**BEARER, "name": "b"})
    assert again.summary == (409, 5, "name: there is a credential 'b' already")
    listed = (await api.get("/credentials")).data["credentials"]
    assert [each["name"] for each in listed] == ["a", "b"]
    changed = await api.put("/credentials/a", {"username": "other", "groups": ["g"]})
    assert (changed.status, changed.data["username"], changed.data["groups"]) == (
        200,
        "other",
        ["g"],
    )
    assert changed.data["hosts"] == HOSTS
    assert (await api.delete("/credentials/a")).data == {"name": "a"}
    gone = await api.get("/credentials/a")
    assert gone.summary == (404, 3, "credential not found")
    assert (await api.delete("/credentials/a")).status == 404
    lines = (await api.get("/audit")).data["lines"]
    assert [(line["action"], line["target"]) for line in lines if line["kind"] == "credential"] == [
        ("credential.delete", "a"),
        ("credential.update", "a"),
        ("credential.create", "a"),
        ("credential.create", "b"),
    ]
    assert lines[0]["details"] == {"type": "basic", "hosts": HOSTS}


async def test_what_a_certificate_says_of_itself(quick_api: Api):
    """Its subject, issuer, end and fingerprint are told."""
    info = (await quick_api.put("/credentials/bank", MTLS)).data["certificate_info"]
    assert (info["subject"], info["issuer"]) == ("CN=duetime", "CN=An Authority")
    assert info["not_after"].startswith("2119-12-08T00:00:00")
    assert len(info["fingerprint"]) == 64


def without(body: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in body.items() if key != name}


_OLD = certificates.make("duetime", AUTHORITY, lasts=timedelta(days=1), is_client=True)
_EARLY = certificates.make(
    "duetime", AUTHORITY, begins=datetime(2100, 1, 1, tzinfo=UTC), is_client=True
)


@pytest.mark.promise("bad-input")
@pytest.mark.parametrize(
    ("body", "message"),
    [
        (without(BEARER, "type"), "type: required"),
        (without(BEARER, "hosts"), "hosts: required: the hosts that it may be sent to"),
        (without(BEARER, "token"), "token: required for a credential of the type 'bearer'"),
        (without(BASIC, "username"), "username: required for a credential of the type 'basic'"),
        ({**BEARER, "password": "x"}, "password: a credential of the type 'bearer' has none"),
        ({**BEARER, "scope": None}, "scope: a credential of the type 'bearer' has none"),
        ({**BEARER, "token": "a b"}, "token: must be printable ASCII text without spaces"),
        ({**BEARER, "token": "a\r\nX: y"}, "token: must be printable ASCII text without spaces"),
        ({**BASIC, "username": "a:b"}, "username: must have no colon"),
        ({**BASIC, "password": "a\nb"}, "password: has a character that is not allowed here"),
        (
            {**HEADER, "header": "Host"},
            "header: Host cannot be set, as Duetime or HTTP itself sets it",
        ),
        ({**HEADER, "header": "A B"}, "header: 'A B' is not a valid header name"),
        (
            {**HEADER, "value": "a\r\nX: y"},
            "header: the value of X-Api-Key must be printable ASCII text",
        ),
        ({**HEADER, "value": " "}, "value: must not be empty"),
        ({**OAUTH2, "token_url": "ftp://x"}, "token_url: must be an http or https URL"),
        (
            {**OAUTH2, "token_url": "http://login.bank.example/"},
            "token_url: must be an https URL, unless allow_http is set",
        ),
        (
            {**OAUTH2, "token_url": "https://u:p@login.bank.example/"},
            "token_url: must not contain a user name or password",
        ),
        ({**MTLS, "allow_http": True}, "allow_http: there are no client certificates without TLS"),
        ({**MTLS, "certificate": "x"}, "certificate: must be one certificate or more in PEM"),
        (
            {**MTLS, "certificate": CLIENT.pem + CLIENT.key_pem},
            "certificate: must be certificates only",
        ),
        (
            {**MTLS, "private_key": "x"},
            "private_key: must be a private key in PEM, without a password",
        ),
        (
            {**MTLS, "private_key": CLIENT.key_with(BestAvailableEncryption(b"p"))},
            "private_key: must be a private key in PEM, without a password",
        ),
        (
            {**MTLS, "private_key": OTHER.key_pem},
            "private_key: does not belong to the certificate",
        ),
        ({**MTLS, "authorities": "x"}, "authorities: must be one certificate or more in PEM"),
        (
            {**MTLS, "certificate": _OLD.pem, "private_key": _OLD.key_pem},
            "certificate: expired at 2020-01-02T00:00:00Z",
        ),
        (
            {**MTLS, "certificate": _EARLY.pem, "private_key": _EARLY.key_pem},
            "certificate: is not valid before 2100-01-01T00:00:00Z",
        ),
    ],
)
async def test_what_is_refused(quick_api: Api, body: dict[str, Any], message: str):
    """In words that name the field, without a word of the secret; nothing is kept."""
    answer = await quick_api.put("/credentials/bank", body)
    assert answer.summary == (400, 2, message)
    assert (await quick_api.get("/credentials")).data["credentials"] == []


@pytest.mark.promise("no-secret")
@pytest.mark.parametrize("body", EVERY.values(), ids=EVERY)
def test_a_request_is_not_shown_anywhere(body: dict[str, Any]):
    """It has a secret, so its representation has nothing."""
    assert repr(convert(body, PutCredential)) == "PutCredential(...)"
    assert repr(convert({"name": "a", **body}, CreateCredential)) == "CreateCredential(...)"


async def test_a_key_that_takes_long_to_use(quick_api: Api, monkeypatch: pytest.MonkeyPatch):
    """One of RSA has a size up to which a handshake holds nobody up."""
    key = rsa.generate_private_key(65537, 2048)
    made = certificates.make("client", AUTHORITY, is_client=True, key=key)
    body = {**MTLS, "certificate": made.pem, "private_key": made.key_pem}
    monkeypatch.setattr(inspecting, "LARGEST_RSA", 2047)
    refused = await quick_api.put("/credentials/bank", body)
    told = "private_key: an RSA key must have at most 2047 bits"
    assert refused.summary == (400, 2, told)
    monkeypatch.setattr(inspecting, "LARGEST_RSA", 2048)
    assert (await quick_api.put("/credentials/bank", body)).status == 201


@pytest.mark.promise("bad-input")
@pytest.mark.parametrize(
    "host",
    [
        "*",
        "*.com",
        "*.*.example.com",
        "a*.example.com",
        "https://api.bank.example",
        "api.bank.example:443",
        "api.bank.example/path",
        "user@api.bank.example",
        "api.bank.example#",
        "a b",
        "a..b",
        "*.127.0.0.1",
        "*.0x7f.1",
        "%61.example.com",
        "",
        " ",
        ".",
    ],
)
async def test_hosts_that_are_none(quick_api: Api, host: str):
    """A host is a host, without ports, paths, users and loose patterns."""
    answer = await quick_api.put("/credentials/bank", {**BEARER, "hosts": ["ok.example", host]})
    assert (answer.status, answer.message[:9]) == (400, "hosts[1]:")


async def test_hosts_are_written_in_one_way(quick_api: Api):
    """So that they are compared with what is connected to."""
    hosts = ["API.Bank.Example.", "bücher.example", "*.Example.com", "[::1]", "0x7f.1", "::1"]
    made = await quick_api.put("/credentials/bank", {**BEARER, "hosts": hosts})
    assert made.data["hosts"] == [
        "api.bank.example",
        "xn--bcher-kva.example",
        "*.example.com",
        "::1",
        "127.0.0.1",
    ]


async def test_without_a_key_to_seal_with(make_api: MakeApi):
    """Whoever runs the service hears what to set; there is nothing that could be read."""
    api = make_api(MemoryStore(), vault=Vault())
    answer = await api.put("/credentials/bank", BEARER)
    assert answer.status == 409
    assert answer.message.startswith("credential: the service has no SECRETS_KEY")
    assert (await api.get("/credentials")).data["credentials"] == []


# Who changes where it goes must know it --------------------------------------------------------


@pytest.mark.promise("no-secret")
@pytest.mark.parametrize(
    ("body", "change", "message"),
    [
        (BEARER, {"hosts": ["evil.example"]}, "hosts: to send it to further hosts, give its token"),
        (BEARER, {"hosts": [*HOSTS, "*.bank.example"]}, "hosts: to send it to further hosts, give"),
        (BEARER, {"allow_http": True}, "allow_http: to send it without TLS, give its token again"),
        (
            OAUTH2,
            {"token_url": "https://evil.example/"},
            "token_url: to send it elsewhere, give its client_secret again",
        ),
    ],
)
async def test_a_secret_goes_further_only_if_it_is_given_again(
    quick_api: Api, body: dict[str, Any], change: dict[str, Any], message: str
):
    """Nobody who may change one, and does not know its secret, can have that sent to them."""
    await quick_api.put("/credentials/bank", body)
    refused = await quick_api.put("/credentials/bank", change)
    assert refused.status == 400
    assert refused.message.startswith(message)
    secret = {name: value for name, value in body.items() if name in SECRETS}
    assert (await quick_api.put("/credentials/bank", {**change, **secret})).status == 200


async def test_hosts_can_become_fewer(quick_api: Api):
    """That takes no secret; those below a domain are among those below the one above."""
    await quick_api.put("/credentials/bank", {**BEARER, "hosts": ["*.bank.example", "a.example"]})
    fewer = {"hosts": ["*.eu.bank.example", "api.bank.example"]}
    assert (await quick_api.put("/credentials/bank", fewer)).status == 200
    assert (await quick_api.put("/credentials/bank", {"hosts": ["bank.example"]})).status == 400


async def test_the_type_stays(quick_api: Api):
    """Another type is another credential."""
    await quick_api.put("/credentials/bank", BEARER)
    answer = await quick_api.put("/credentials/bank", BASIC)
    assert answer.status == 400
    assert answer.message == "type: is 'bearer' for ever; delete it, and make another one"


async def test_who_was_slower_looks_again(make_api: MakeApi):
    """Of two who change it at once, one is told."""

    class Overtaken(FlakyStore):
        """Somebody else writes right before."""

        is_overtaken = False

        async def put_record(self, old, new):
            if self.is_overtaken and new is not None and new.kind == KIND:
                self.is_overtaken = False
                await self.store.put_record(old, replace(new, data=old.data))
            return await self.store.put_record(old, new)

    store = Overtaken(MemoryStore())
    api = make_api(store)
    await api.put("/credentials/bank", BEARER)
    store.is_overtaken = True
    answer = await api.put("/credentials/bank", {"groups": ["g"]})
    assert answer.status == 409
    assert answer.message.endswith("look at it again")


async def test_a_tenant_has_so_many(quick_api: Api, monkeypatch: pytest.MonkeyPatch):
    """They are in the memory of every node."""
    assert MOST_CREDENTIALS == 100
    monkeypatch.setattr("duetime.tenancy.credentials.MOST_CREDENTIALS", 2)
    for name in ("a", "b"):
        assert (await quick_api.put(f"/credentials/{name}", BEARER)).status == 201
    refused = await quick_api.put("/credentials/c", BEARER)
    assert refused.summary == (409, 5, "credential: a tenant has at most 2; delete some")
    assert (await quick_api.put("/credentials/a", BEARER)).status == 200


# Whose they are --------------------------------------------------------------------------------


async def test_tenants_have_their_own(api: Api):
    """Of another's there is nothing to be seen, and nothing to be used."""
    acme, other = await api.make_key("acme"), await api.make_key("other")
    assert (await api.call("PUT", "/credentials/bank", BEARER, key=acme)).status == 201
    assert (await api.call("GET", "/credentials/bank", key=other)).status == 404
    assert (await api.call("GET", "/credentials", key=other)).data == {"credentials": []}
    assert (await api.call("DELETE", "/credentials/bank", key=other)).status == 404
    assert (await api.call("POST", "/timers", calling(), key=acme)).status == 201
    refused = await api.call("POST", "/timers", calling(), key=other)
    message = "callback.credential: there is no credential 'bank' for the group 'default'"
    assert refused.summary == (400, 2, message)
    assert (await api.call("PUT", "/credentials/bank", BASIC, key=other)).status == 201
    mine = await api.call("GET", "/credentials/bank", key=acme)
    assert mine.data["type"] == "bearer"


async def test_a_key_for_some_groups(api: Api):
    """It sees, makes and changes those that are for its groups alone."""
    key = await api.make_key(groups=["a", "b"])
    await api.put("/credentials/all", BEARER)
    await api.put("/credentials/both", {**BEARER, "groups": ["a", "c"]})
    await api.put("/credentials/mine", {**BEARER, "groups": ["a"]})
    listed = await api.call("GET", "/credentials", key=key)
    assert [each["name"] for each in listed.data["credentials"]] == ["mine"]
    for name in ("all", "both"):
        assert (await api.call("GET", f"/credentials/{name}", key=key)).status == 404
        assert (
            await api.call("PUT", f"/credentials/{name}", {"groups": ["a"]}, key=key)
        ).status == 404
        assert (await api.call("DELETE", f"/credentials/{name}", key=key)).status == 404
    for groups in (None, ["a", "c"]):
        body = {**BEARER, "groups": groups}
        assert (await api.call("PUT", "/credentials/new", body, key=key)).status == 403
        assert (
            await api.call("PUT", "/credentials/mine", {"groups": groups}, key=key)
        ).status == 403
    assert (await api.get("/credentials/mine")).data["groups"] == ["a"]
    body = {**BEARER, "groups": ["b"]}
    assert (await api.call("PUT", "/credentials/new", body, key=key)).status == 201


async def test_a_deleted_tenant_takes_its_credentials_along(api: Api):
    """Nothing of them stays in the store."""
    key = await api.make_key("acme")
    await api.call("PUT", "/credentials/bank", BEARER, key=key)
    await api.put("/credentials/bank", BASIC)
    assert (await api.delete("/tenants/acme")).status == 200
    assert [record.name for record in await api.store.records(KIND)] == ["default/bank"]


async def test_who_is_told_of_a_failure_may_need_one_too(api: Api):
    """It is held to the same rules: known, for this group, and for this host."""
    await api.put("/credentials/bank", {**BEARER, "groups": ["g"]})

    def telling(url: str = URL, **fields: Any) -> dict[str, Any]:
        told = {"callback": http_callback(url=url, credential="bank")}
        return timer_body(on_failure=told, **fields)

    assert (await api.post("/timers", telling(group="g"))).status == 201
    elsewhere = await api.post("/timers", telling("https://evil.example/", group="g"))
    assert elsewhere.status == 400
    assert elsewhere.message.startswith("on_failure.callback.credential: ")
    assert (await api.post("/timers", telling())).summary == (
        400,
        2,
        "on_failure.callback.credential: there is no credential 'bank' for the group 'default'",
    )
    timer = (await api.post("/timers", timer_body())).data
    change = {"on_failure": telling()["on_failure"]}
    assert (await api.put(f"/timers/{timer['id']}", change)).status == 400


async def test_a_group_that_tells_with_one(api: Api):
    """It names one that there is, which then cannot be deleted under it."""
    told = {"on_failure": {"callback": http_callback(url=URL, credential="bank")}}
    assert (await api.put("/groups/g", told)).summary == (
        400,
        2,
        "on_failure.callback.credential: there is no credential 'bank' for the group 'g'",
    )
    await api.put("/credentials/bank", BEARER)
    assert (await api.put("/groups/g", told)).status == 201
    assert (await api.delete("/credentials/bank")).status == 409
    assert (await api.put("/groups/g", {"on_failure": None})).status == 200
    assert (await api.delete("/credentials/bank")).status == 200
