"""Egress: which addresses may be called. Users choose the URLs, so they must not reach inside.

By default only addresses that the whole internet can reach are permitted. The judgement is made on
the address that will be connected to, never on a name alone, because what a name resolves to is
up to whoever owns it. ``EGRESS_ALLOW`` widens it, entry by entry:

- a network or an address, ``10.20.0.0/16``, ``fd12::/32``, ``10.0.0.7``, ``10.0.0.7:8080``,
  ``[::1]:8080``: these addresses, whatever the name that led there;
- a host, ``hooks.internal``, ``*.svc.cluster.local``, ``localhost:8080``: this host, *whatever it
  resolves to*. List only names whose DNS you control.

``EGRESS_PUBLIC`` narrows what is public down to entries of the same kind: a host that stands there
is called at public addresses only. ``EGRESS_DENY`` wins over both.
"""

from ipaddress import IPv4Network, IPv6Network, ip_address

from duetime.delivery.addresses import Address, Network, is_global
from duetime.delivery.egress_rule import Rule, parse_rules
from duetime.errors import ConfigurationError

VARIABLE = "EGRESS_ALLOW"
PUBLIC_VARIABLE = "EGRESS_PUBLIC"
DENY_VARIABLE = "EGRESS_DENY"

_LOOPBACK: tuple[Network, ...] = (IPv4Network("127.0.0.0/8"), IPv6Network("::1/128"))


class Egress:
    """What may be called."""

    def __init__(
        self,
        allow: tuple[Rule, ...] = (),
        *,
        public: tuple[Rule, ...] | None = None,  # None: all of it
        deny: tuple[Rule, ...] = (),
    ) -> None:
        self._allow = allow
        self._public = public
        self._deny = deny

    @classmethod
    def parse(
        cls, allow: str, *, public: str = "all", deny: str = "", loopback: bool = False
    ) -> "Egress":
        """Read the three lists; with ``loopback``, this machine may be called as well."""
        rules = tuple(Rule(network=network) for network in _LOOPBACK) if loopback else ()
        rules += parse_rules(VARIABLE, allow)
        return cls(rules, public=_parse_public(public), deny=parse_rules(DENY_VARIABLE, deny))

    def permits(self, host: str, port: int, address: str) -> bool:
        """Tell whether a URL's host (as ``Url`` normalises it) may be called at this address."""
        ip = ip_address(address)
        name = host.removesuffix(".")
        if _any_fits(self._deny, name, port, ip):
            return False
        if is_global(ip) and (self._public is None or _any_fits(self._public, name, port, ip)):
            return True
        return _any_fits(self._allow, name, port, ip)

    def permits_name(self, host: str, port: int) -> bool:
        """Tell whether a host may be called wherever somebody else finds it."""
        name = host.removesuffix(".")
        if _any_fits(self._deny, name, port, None):
            return False
        return self._public is None or _any_fits((*self._public, *self._allow), name, port, None)

    def remedy(self, host: str, port: int, address: str | None) -> str:
        """What an operator can do for what may not be called; a mere name has no address."""
        ip = None if address is None else ip_address(address)
        if _any_fits(self._deny, host.removesuffix("."), port, ip):
            return f"the operator has denied it with {DENY_VARIABLE}"
        variable = PUBLIC_VARIABLE if ip is None or is_global(ip) else VARIABLE
        return f"the operator can permit it with {variable}"


def _parse_public(public: str) -> tuple[Rule, ...] | None:
    words = {word.strip().lower() for word in public.split(",")}
    if not words & {"all", "none"}:
        return parse_rules(PUBLIC_VARIABLE, public)
    if len(words) > 1:
        raise ConfigurationError(f"{PUBLIC_VARIABLE}: all and none stand alone")
    return None if "all" in words else ()


def _any_fits(rules: tuple[Rule, ...], host: str, port: int, address: Address | None) -> bool:
    return any(rule.fits(host, port, address) for rule in rules)
