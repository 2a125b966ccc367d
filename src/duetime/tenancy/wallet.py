"""The wallet: credentials as callbacks show them, opened once and kept until they change."""

import base64
import logging
from hashlib import sha256
from typing import Any

from duetime.delivery import credential as delivery
from duetime.delivery.client_certificate import ClientCertificate
from duetime.delivery.credential import Refusal
from duetime.delivery.grant import Grant
from duetime.delivery.hosts import Hosts
from duetime.tenancy.credential import Credential, name_of
from duetime.tenancy.rules import Kept, Rules
from duetime.timer import HttpCallback, Timer
from duetime.vault import CannotOpen, Vault

_log = logging.getLogger("duetime.secrets")


class Wallet:
    """What delivery asks for the credentials of timers."""

    def __init__(self, rules: Rules, vault: Vault) -> None:
        self._rules = rules
        self._vault = vault
        self._opened: dict[str, tuple[Kept[Credential], delivery.Credential | Refusal]] = {}

    def of(self, timer: Timer) -> delivery.Credential | Refusal:
        """The one that a timer names, as far as is known here."""
        callback = timer.spec.callback
        name = callback.credential if isinstance(callback, HttpCallback) else None
        kept = self._rules.credentials.kept(name_of(timer.tenant, name or ""))
        if kept is None:
            return Refusal("does not exist any more", retryable=False)
        if not kept.document.is_for(timer.group):
            return Refusal(f"is not for the group '{timer.group}'", retryable=False)
        found = self._opened.get(kept.record.name)
        if found is None or found[0] is not kept:
            found = self._opened[kept.record.name] = kept, self._open(kept)
            self._forget_gone()
        return found[1]

    async def look(self) -> None:
        """Learn of changes that others have made."""
        await self._rules.look()

    def _open(self, kept: Kept[Credential]) -> delivery.Credential | Refusal:
        credential = kept.document
        try:
            secret = self._vault.open(credential.sealed, credential.purpose)
        except CannotOpen as error:
            # Once for each version of it, for whoever can put the key back.
            _log.error(
                "%s: the credential '%s' cannot be opened: %s; callbacks that name it are not sent",
                credential.tenant,
                credential.name,
                error,
            )
            # Another node may have the key for it.
            return Refusal(f"cannot be opened: {error}", retryable=True)
        hosts = Hosts(credential.hosts, over_http=credential.allow_http)
        # Sealed with random bytes, so it is the same for no other one, and for no other version.
        id_ = sha256(kept.record.data).hexdigest()
        return delivery.Credential(credential.name, hosts, **shown(credential, secret, id_))

    def _forget_gone(self) -> None:
        shelf = self._rules.credentials
        if len(self._opened) > len(shelf.all()):
            self._opened = {
                name: each for name, each in self._opened.items() if shelf.kept(name) is each[0]
            }


def shown(credential: Credential, secret: bytes, id_: str) -> dict[str, Any]:
    """What of a credential goes to receivers, and what nobody else may read."""
    parts, text = credential.parts, secret.decode()
    if credential.type == "mtls":
        return {
            "certificate": ClientCertificate(
                id_, chain=parts["certificate"], key=secret, authorities=parts.get("authorities")
            )
        }
    if credential.type == "oauth2":
        grant = Grant(
            id_,
            token_url=parts["token_url"],
            client_id=parts["client_id"],
            client_secret=text,
            style="body" if parts.get("auth_style") == "body" else "basic",
            scope=parts.get("scope"),
            audience=parts.get("audience"),
        )
        return {"grant": grant, "hidden": (text,)}
    if credential.type == "header":
        return {"headers": {parts["header"].title(): text}, "hidden": (text,)}
    if credential.type == "bearer":
        return {"headers": {"Authorization": f"Bearer {text}"}, "hidden": (text,)}
    pair = base64.b64encode(f"{parts['username']}:{text}".encode()).decode()
    return {"headers": {"Authorization": f"Basic {pair}"}, "hidden": (pair, text)}
