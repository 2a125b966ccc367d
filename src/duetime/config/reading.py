"""Readers: each turns what was written for a setting into its value, or says what to write.

A reader never repeats what it was given: the caller does, where that is no secret.
"""

import re
from collections.abc import Callable
from ipaddress import ip_network
from typing import Any, NamedTuple

from duetime.clock import Millis
from duetime.durations import format_duration, parse_duration
from duetime.errors import ConfigurationError
from duetime.vault import KEY_BYTES, parse_key

SHORTEST_KEY = 32

_SIZE = re.compile(r"(\d{1,12})\s*(|B|KiB|MiB|GiB)", re.ASCII | re.IGNORECASE)
_SIZE_UNITS = {"": 1, "b": 1, "kib": 1024, "mib": 1024**2, "gib": 1024**3}
_URL = re.compile(r"[a-z][a-z0-9+.-]*://\S*", re.ASCII | re.IGNORECASE)
_PROXY = re.compile(r"http://(?:[^\s/?#@]*@)?[^\s/?#@\\]+/?", re.IGNORECASE)
_NATS_SERVER = re.compile(
    r"(?:nats|tls)://(?:[^\s/?#@,]*@)?(?:\[[0-9a-f:.]+\]|[^\s/?#@,:\[\]]+)(?::\d{1,5})?/?",
    re.IGNORECASE,
)
_NATS_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
_NATS_PREFIX = re.compile(r"[^\s.*>]+(?:\.[^\s.*>]+)*")
_SIGNING_SECRET = re.compile(r"whsec_[A-Za-z0-9+/_-]{32,}={0,2}", re.ASCII)


class Reader(NamedTuple):
    """What may be written, for people, and what reads it."""

    values: str
    read: Callable[[str], Any]

    def __call__(self, written: str) -> Any:
        """Read it; ValueError says what to write instead."""
        return self.read(written)


def text(values: str = "text") -> Reader:
    """Anything."""
    return Reader(values, str)


def _url(written: str) -> str:
    """A URL of any scheme; whether there is a store for it, the stores know."""
    if not _URL.fullmatch(written):
        raise ValueError("must be a URL such as sqlite:///data/duetime.db")
    return written


def _api_key(written: str) -> str:
    """A key that nobody guesses, and that fits into a header."""
    if len(written) < SHORTEST_KEY:
        raise ValueError(f"must have at least {SHORTEST_KEY} characters, but has {len(written)}")
    if not (written.isascii() and written.isprintable()) or " " in written:
        raise ValueError("must consist of printable ASCII characters, without spaces")
    return written


url = Reader("a URL", _url)
api_key = Reader(f"{SHORTEST_KEY} characters or more", _api_key)


def count(least: int, most: int) -> Reader:
    """A whole number within bounds."""

    def read(written: str) -> int:
        digits = written.isascii() and written.isdigit() and len(written) <= len(str(most))
        if not digits or not least <= int(written) <= most:
            raise ValueError(f"must be a whole number from {least} to {most}")
        return int(written)

    return Reader(f"{least} to {most}", read)


def one_of(*choices: str) -> Reader:
    """One of a few words, in any case."""
    values = ", ".join(choices)

    def read(written: str) -> str:
        if written.lower() not in choices:
            raise ValueError(f"must be one of {values}")
        return written.lower()

    return Reader(values, read)


def duration(least: Millis = 0) -> Reader:
    """A duration that is not too short."""

    def read(written: str) -> Millis:
        millis = parse_duration(written)
        if millis < least:
            raise ValueError(f"must be at least {format_duration(least)}")
        return millis

    return Reader(f"a duration, {format_duration(least)} or more" if least else "a duration", read)


def duration_or_never(least: Millis) -> Reader:
    """A duration, or None for "never"."""
    read_duration = duration(least)

    def read(written: str) -> Any:
        if written.lower() == "never":
            return None
        try:
            return read_duration(written)
        except ValueError as error:
            raise ValueError(f'{error}, or "never"') from None

    return Reader(f"{read_duration.values}, or never to keep them for ever", read)


def size(least: int, most: int | None = None) -> Reader:
    """A number of bytes: "1048576", "1024KiB" or "1MiB"."""

    def read(written: str) -> int:
        found = _SIZE.fullmatch(written)
        if not found:
            raise ValueError('must be a number of bytes such as "1048576" or "1MiB"')
        total = int(found[1]) * _SIZE_UNITS[found[2].lower()]
        if total < least:
            raise ValueError(f"must be at least {least} bytes")
        if most is not None and total > most:
            raise ValueError(f"must be at most {most} bytes")
        return total

    values = "bytes, or KiB, MiB, GiB" if most is None else f"up to {most // _SIZE_UNITS['mib']}MiB"
    return Reader(values, read)


def _words(written: str) -> tuple[str, ...]:
    """A list with commas between; what each word means, its user knows."""
    found = tuple(word.strip() for word in written.split(",") if word.strip())
    if any(len(word.split()) > 1 for word in found):
        raise ValueError("must be separated by commas")
    return found


def words(examples: str) -> Reader:
    """A list of words that somebody else understands."""
    return Reader(f"comma-separated, e.g. {examples}", _words)


def _networks(written: str) -> tuple[str, ...]:
    """Networks and single addresses."""
    found = _words(written)
    for word in found:
        try:
            ip_network(word)
        except ValueError:
            raise ValueError("must be addresses, or networks such as 10.1.0.0/16") from None
    return found


networks = Reader("comma-separated, e.g. 10.0.0.0/8, ::1", _networks)


def _proxy(written: str) -> str:
    """A proxy's URL; delivery reads it."""
    if not _PROXY.fullmatch(written):
        raise ValueError("must be http://host:port or http://user:password@host:port")
    return written


proxy = Reader("http://[user:password@]host:port", _proxy)


def _signing_secrets(written: str) -> tuple[str, ...]:
    """Secrets that look like secrets; delivery reads them."""
    secrets = tuple(secret.strip() for secret in written.split(",") if secret.strip())
    for number, secret in enumerate(secrets, start=1):
        if not _SIGNING_SECRET.fullmatch(secret):
            raise ValueError(
                f"number {number} must be whsec_ and then 24 random bytes or more in base64"
            )
    return secrets


signing_secrets = Reader("comma-separated whsec_...", _signing_secrets)


def _secrets_keys(written: str) -> tuple[str, ...]:
    """Keys that look like keys; the vault reads them."""
    keys = tuple(key.strip() for key in written.split(",") if key.strip())
    for number, key in enumerate(keys, start=1):
        try:
            parse_key(key)
        except ConfigurationError:
            raise ValueError(
                f"number {number} must be {KEY_BYTES} random bytes in base64"
            ) from None
    if len(set(keys)) < len(keys):
        raise ValueError("has the same key twice")
    return keys


secrets_keys = Reader(f"comma-separated base64 of {KEY_BYTES} bytes", _secrets_keys)


def _nats_servers(written: str) -> tuple[str, ...]:
    """Servers that look like servers; whoever connects reads them."""
    servers = tuple(server.strip() for server in written.split(",") if server.strip())
    servers = tuple(each if "://" in each else f"nats://{each}" for each in servers)
    for number, server in enumerate(servers, start=1):
        if not _NATS_SERVER.fullmatch(server):
            raise ValueError(f"number {number} must be nats://host:port or tls://host:port")
    return servers


nats_servers = Reader("comma-separated, e.g. nats://[user:password@]host:4222", _nats_servers)


def _nats_name(written: str) -> str:
    """The name of a stream."""
    if not _NATS_NAME.fullmatch(written):
        raise ValueError("must be at most 64 letters, digits, _ and -")
    return written


nats_name = Reader("a name", _nats_name)


def _nats_prefix(written: str) -> str:
    """Whole tokens of a subject, without wildcards."""
    if not _NATS_PREFIX.fullmatch(written):
        raise ValueError("must be a subject such as duetime or eu.duetime, without wildcards")
    return written


nats_prefix = Reader("a subject", _nats_prefix)


def _nats_tenants(written: str) -> tuple[tuple[str, str], ...]:
    """What subjects begin with, and whose they are."""
    found: dict[str, str] = {}
    for word in _words(written):
        prefix, _, tenant = word.partition("=")
        if not tenant:
            raise ValueError("must be subjects and tenants such as orders.timers=acme")
        if prefix in found:
            raise ValueError("has the same subject twice")
        found[_nats_prefix(prefix)] = tenant
    return tuple(found.items())


nats_tenants = Reader("comma-separated, e.g. orders.timers=acme", _nats_tenants)
