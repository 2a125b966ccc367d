"""What of a credential its users set, and how a request changes that: what it does not name stays.

A secret is not shown again, also not to those who may change where it is sent: whoever wants it to
go further has to know it.
"""

import re

from msgspec import UNSET
from msgspec.structs import replace

from duetime.clock import Millis
from duetime.delivery import Sender
from duetime.delivery.hosts import Hosts, normal, where
from duetime.errors import InvalidRequest
from duetime.tenancy.certificates import inspect
from duetime.tenancy.credential import PARTS, Credential
from duetime.tenancy.credential_requests import PutCredential
from duetime.timer import HttpCallback
from duetime.vault import CannotOpen, Vault

_EVERY = tuple(
    dict.fromkeys(
        name for each in PARTS.values() for name in (each.secret, *each.required, *each.optional)
    )
)
_IN_A_HEADER = re.compile(r"[!-~]+")
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def changed(
    old: Credential, body: PutCredential, now: Millis, sender: Sender, vault: Vault
) -> Credential:
    """A credential as a request wants it, sealed; a new one has no ``sealed`` before.

    It takes a while for certificates, and so does not belong into the event loop.
    """
    hosts = old.hosts if body.hosts is UNSET else _hosts(body.hosts)
    groups = old.groups if body.groups is UNSET else body.groups
    new = replace(
        old,
        hosts=hosts,
        allow_http=old.allow_http if body.allow_http is UNSET else body.allow_http,
        groups=None if groups is None else frozenset(groups),
        parts=_parts(old, body),
        updated_at=now,
    )
    if not new.hosts:
        raise InvalidRequest("hosts: required: the hosts that it may be sent to")
    secret = _secret(old, new, body, vault)
    _check(new, secret, sender)
    if new.type == "mtls":
        parts = new.parts
        about = inspect(parts["certificate"], secret, parts.get("authorities"), now)
        new = replace(new, about=about)
    return replace(new, sealed=vault.seal(secret.encode(), new.purpose))


def _hosts(patterns: list[str]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for number, pattern in enumerate(patterns):
        try:
            found[normal(pattern)] = None
        except ValueError as error:
            raise InvalidRequest(f"hosts[{number}]: {error}") from None
    return tuple(found)


def _parts(old: Credential, body: PutCredential) -> dict[str, str]:
    """What the credential consists of, but for its secret."""
    secret, required, optional = PARTS[old.type]
    parts = dict(old.parts)
    for name in _EVERY:
        value = getattr(body, name)
        if value is UNSET or name == secret:
            continue
        if name not in required + optional:
            raise InvalidRequest(f"{name}: a credential of the type '{old.type}' has none")
        if value is None:
            parts.pop(name, None)
        else:
            parts[name] = value
    for name in required:
        if name not in parts:
            raise InvalidRequest(f"{name}: required for a credential of the type '{old.type}'")
    return parts


def _secret(old: Credential, new: Credential, body: PutCredential, vault: Vault) -> str:
    """The secret that was given, or is kept already if it goes nowhere that it did not go."""
    field = PARTS[old.type].secret
    given = getattr(body, field)
    if given is not UNSET:
        return str(given)
    if not old.sealed:
        raise InvalidRequest(f"{field}: required for a credential of the type '{old.type}'")
    before = Hosts(old.hosts)
    if not all(map(before.includes, new.hosts)):
        raise InvalidRequest(f"hosts: to send it to further hosts, give its {field} again")
    if new.allow_http and not old.allow_http:
        raise InvalidRequest(f"allow_http: to send it without TLS, give its {field} again")
    if new.parts.get("token_url") != old.parts.get("token_url"):
        raise InvalidRequest(f"token_url: to send it elsewhere, give its {field} again")
    try:
        return vault.open(old.sealed, old.purpose).decode()
    except CannotOpen as error:
        raise InvalidRequest(f"{field}: required: what is kept cannot be opened: {error}") from None


def _check(new: Credential, secret: str, sender: Sender) -> None:
    """Refuse what no callback could show. No error quotes a secret."""
    parts = new.parts
    if new.type == "bearer" and not _IN_A_HEADER.fullmatch(secret):
        raise InvalidRequest("token: must be printable ASCII text without spaces")
    if new.type == "basic" and ":" in parts["username"]:
        raise InvalidRequest("username: must have no colon")
    if new.type in {"basic", "oauth2"} and _CONTROLS.search(secret):
        raise InvalidRequest(f"{PARTS[new.type].secret}: has a character that is not allowed here")
    if new.type == "header":
        _check_header(parts["header"], secret, sender)
    if new.type == "mtls" and new.allow_http:
        raise InvalidRequest("allow_http: there are no client certificates without TLS")
    if new.type == "oauth2":
        _check_token_url(new, sender)


def _check_header(name: str, value: str, sender: Sender) -> None:
    if not value.strip():
        raise InvalidRequest("value: must not be empty")
    callback = HttpCallback(url="https://example.com/", headers={name: value})
    if (problem := sender.problem(callback)) is not None:
        raise InvalidRequest(problem.replace("callback.headers", "header", 1))


def _check_token_url(new: Credential, sender: Sender) -> None:
    token_url = new.parts["token_url"]
    if (problem := sender.problem(HttpCallback(url=token_url))) is not None:
        raise InvalidRequest(problem.split(";")[0].replace("callback.url", "token_url", 1))
    _, is_tls = where(token_url)
    if not is_tls and not new.allow_http:
        raise InvalidRequest("token_url: must be an https URL, unless allow_http is set")
