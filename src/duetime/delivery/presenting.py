"""Presenting: what one attempt shows to its receiver, if that is a host of its credential.

The judgement is made on the receiver that is then connected to, whatever its URL looked like. What
a receiver repeats of a secret is veiled before anybody can read it.
"""

import asyncio
from typing import Any, NamedTuple

from msgspec.structs import replace

from duetime.clock import Clock
from duetime.delivery.answers import Response
from duetime.delivery.client_certificate import ClientCertificate
from duetime.delivery.credential import Credential, Credentials, Refusal
from duetime.delivery.hosts import where
from duetime.delivery.oauth2 import NoToken, Token, Tokens
from duetime.delivery.outcomes import no_credential, retry_at
from duetime.delivery.receiver import Receiver
from duetime.errors import StoreError
from duetime.timer import HttpCallback, Outcome, Timer

VEIL = "***"
_SHORTEST = 4  # characters of a secret that are worth a veil: fewer stand in any text


class Presented(NamedTuple):
    """What an attempt shows."""

    headers: dict[str, str]
    certificate: ClientCertificate | None = None
    token: Token | None = None
    hidden: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return "Presented(...)"

    def unrepeated(self, response: Response) -> Response:
        """An answer without it in its headers: what is told of these may be cut anywhere."""
        headers = response.headers
        for secret in self.hidden:
            if len(secret) >= _SHORTEST:
                shown, veil = secret.encode(), VEIL.encode()
                headers = [(name, value.replace(shown, veil)) for name, value in headers]
        return response._replace(headers=headers)

    def veiled(self, outcome: Outcome) -> Outcome:
        """An outcome in which nobody reads what was shown."""
        changes = {
            name: _veiled(getattr(outcome, name), self.hidden)
            for name in outcome.__struct_fields__
            if type(getattr(outcome, name)) in {str, dict}
        }
        return replace(outcome, **changes) if changes else outcome


class Presenting:
    """Finds out what to show."""

    def __init__(self, credentials: Credentials, tokens: Tokens, clock: Clock) -> None:
        self._credentials = credentials
        self._tokens = tokens
        self._clock = clock

    async def show(
        self,
        timer: Timer,
        callback: HttpCallback,
        receiver: Receiver,
        seconds: float,
        refused: Token | None = None,
    ) -> Presented | Outcome:
        """What to show with a callback that names a credential; an outcome if it cannot be sent."""
        credential = await self._find(timer, receiver, seconds)
        if isinstance(credential, Refusal):
            return no_credential(
                str(callback.credential), credential.error, retryable=credential.retryable
            )
        headers = dict(credential.headers)
        if credential.grant is None:
            return Presented(headers, credential.certificate, None, credential.hidden)
        token = await self._tokens.get(credential.grant, seconds, refused)
        if isinstance(token, NoToken):
            host, _ = where(credential.grant.token_url)
            failed = no_credential(credential.name, f"got no token from {host}: {token.error}")
            return replace(failed, retry_at=retry_at(token.retry_after, self._clock.now()))
        headers["Authorization"] = f"Bearer {token.value}"
        return Presented(headers, None, token, (token.value, *credential.hidden))

    async def _find(self, timer: Timer, receiver: Receiver, seconds: float) -> Credential | Refusal:
        found = self._usable(timer, receiver)
        if isinstance(found, Refusal):
            # It may have just been made, or been given this host, on another node.
            try:
                async with asyncio.timeout(seconds):
                    await self._credentials.look()
            except (StoreError, TimeoutError):
                return Refusal("cannot be looked up just now", retryable=True)
            found = self._usable(timer, receiver)
        return found

    def _usable(self, timer: Timer, receiver: Receiver) -> Credential | Refusal:
        found = self._credentials.of(timer)
        if isinstance(found, Credential):
            problem = found.hosts.problem(receiver.host, is_tls=receiver.is_tls)
            return found if problem is None else Refusal(problem, retryable=False)
        return found


def _veiled(said: Any, hidden: tuple[str, ...]) -> Any:
    if not isinstance(said, str):
        return {name: _veiled(str(value), hidden) for name, value in said.items()}
    for secret in hidden:
        if len(secret) < _SHORTEST:
            continue
        said = said.replace(secret, VEIL)
        begun = _begun(said, secret)
        if begun >= 0:
            said = said[:begun] + VEIL
    return said


def _begun(said: str, secret: str) -> int:
    """Where a secret begins that a text, being an excerpt, ends in the middle of; -1: nowhere."""
    place = max(len(said) - len(secret), -1)
    while (place := said.find(secret[:_SHORTEST], place + 1)) >= 0:
        if secret.startswith(said[place:]):
            break
    return place
