"""How signing secrets look to people."""

from collections.abc import Iterable, Mapping
from typing import Any

from duetime.cli.cells import cell, show_lines, time
from duetime.cli.output import Screen, relative
from duetime.clock import Millis

Row = Mapping[str, Any]

_ALL = "all others"  # groups that have none of their own


def show_secrets(screen: Screen, secrets: Iterable[Row], now: Millis) -> None:
    """The signing secrets, one line each; the secrets themselves nobody is shown."""
    lines = [
        (
            cell(secret.get("id")),
            cell(secret.get("group") or _ALL),
            cell(secret.get("fingerprint")),
            relative(secret.get("expires_at"), now) if secret.get("expires_at") else "never",
            relative(secret.get("created_at"), now),
            cell(secret.get("created_by")),
        )
        for secret in secrets
    ]
    if lines:
        screen.table(("ID", "GROUP", "FINGERPRINT", "EXPIRES", "CREATED", "BY"), lines)
    else:
        screen.line("No signing secrets.")


def show_secret(screen: Screen, secret: Row, now: Millis) -> None:
    """All about one signing secret, but for the secret itself."""
    show_lines(
        screen,
        {
            "id": secret.get("id"),
            "group": secret.get("group") or _ALL,
            "fingerprint": secret.get("fingerprint"),
            "expires": time(secret.get("expires_at"), now) or "never",
        },
    )
