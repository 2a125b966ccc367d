"""How credentials look to people."""

from collections.abc import Iterable, Mapping
from typing import Any

from duetime.cli.cells import cell, inner, show_lines, time
from duetime.cli.output import Screen, relative
from duetime.clock import Millis

Row = Mapping[str, Any]


def show_credentials(screen: Screen, credentials: Iterable[Row], now: Millis) -> None:
    """The credentials, one line each."""
    lines = [
        (
            cell(each.get("name")),
            cell(each.get("type")),
            cell(_listed(each, "hosts")),
            cell(_listed(each, "groups") or "all"),
            relative(inner(each, "certificate_info").get("not_after"), now),
            relative(each.get("updated_at"), now),
        )
        for each in credentials
    ]
    if lines:
        screen.table(("NAME", "TYPE", "HOSTS", "GROUPS", "EXPIRES", "CHANGED"), lines)
    else:
        screen.line("No credentials.")


def show_credential(screen: Screen, credential: Row, now: Millis) -> None:
    """All about one credential, but for its secret."""
    names = ("username", "header", "token_url", "client_id", "scope", "audience", "auth_style")
    certificate = inner(credential, "certificate_info")
    show_lines(
        screen,
        {
            "name": credential.get("name"),
            "type": credential.get("type"),
            "hosts": _listed(credential, "hosts"),
            "http": "sent also without TLS" if credential.get("allow_http") else None,
            "groups": _listed(credential, "groups") or "all",
            **{name.replace("_", " "): credential.get(name) for name in names},
            "subject": certificate.get("subject"),
            "issuer": certificate.get("issuer"),
            "expires": time(certificate.get("not_after"), now),
            "fingerprint": certificate.get("fingerprint"),
            "created": time(credential.get("created_at"), now),
            "by": credential.get("created_by"),
            "changed": time(credential.get("updated_at"), now),
        },
    )


def _listed(row: Row, name: str) -> str:
    found = row.get(name)
    return ", ".join(map(str, found)) if isinstance(found, list) else ""
