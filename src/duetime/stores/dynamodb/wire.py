"""The wire: one request, one answer, signed and bounded in time; it never repeats anything."""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import msgspec
from pyreqwest.client import Client, ClientBuilder
from pyreqwest.exceptions import PyreqwestError

from duetime.clock import SystemClock
from duetime.errors import StoreUnavailable
from duetime.stores.dynamodb.address import Address
from duetime.stores.dynamodb.credentials import Chain
from duetime.stores.dynamodb.errors import Lost, Refused
from duetime.stores.dynamodb.signing import Signer

_API = "DynamoDB_20120810"
# Seconds for a new connection, and for a place among those that are there.
CONNECT_WITHIN = 5.0
PLACE_WITHIN = 10.0

# Among the causes of what failed before a connection stood. The types of errors do not tell: one
# that breaks while the answer is awaited is called a ConnectError too.
_NEVER_SENT = "client error (Connect)"

Answer = dict[str, Any]
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Answer).decode


class Wire:
    """Up to so many connections to one endpoint, each with a request under way or at rest."""

    def __init__(self, address: Address, size: int) -> None:
        self._chain = Chain(address)
        self._url = f"{address.endpoint}/"
        self._signer = Signer(urlsplit(address.endpoint).netloc, address.region)
        self._places = asyncio.Semaphore(size)
        self._size = size
        self._clock = SystemClock()  # AWS takes no signature that is minutes old
        self._client: Client | None = None

    async def call(self, operation: str, arguments: Mapping[str, Any], within: float) -> Answer:
        """Ask once, and wait so many seconds for the answer.

        Refused says that nothing was done, Lost that nobody knows.
        """
        try:
            async with asyncio.timeout(PLACE_WITHIN):
                await self._places.acquire()
        except TimeoutError:
            raise Lost("all connections are busy: raise pool_size", was_sent=False) from None
        try:
            return await self._exchange(operation, _encode(arguments), within)
        finally:
            self._places.release()

    async def _exchange(self, operation: str, body: bytes, within: float) -> Answer:
        target = f"{_API}.{operation}"
        try:
            credentials = await self._chain.credentials()
        except StoreUnavailable as error:
            raise Lost(str(error), was_sent=False) from error
        now = datetime.fromtimestamp(self._clock.now() / 1000, UTC)
        headers = self._signer.headers(credentials, target, body, now)
        try:
            request = (
                self._opened()
                .post(self._url)
                .headers(headers)
                .timeout(timedelta(seconds=within))
                .body_bytes(body)
                .build()
            )
            response = await request.send()
            content = bytes(await response.bytes())
        except PyreqwestError as error:
            raise _lost(error, within) from error
        except ValueError:  # Not repeated: what is wrong with it may be a part of a key.
            raise Lost("the credentials do not fit into a request", was_sent=False) from None
        return _understood(response.status, content)

    def _opened(self) -> Client:
        if self._client is None:
            self._client = (
                ClientBuilder()
                .follow_redirects(enable=False)
                .http1_only()
                .connect_timeout(timedelta(seconds=CONNECT_WITHIN))
                .pool_max_idle_per_host(self._size)
                .build()
            )
        return self._client

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()


def _understood(status: int, content: bytes) -> Answer:
    try:
        answer = _decode(content)
    except msgspec.DecodeError:
        raise Lost(f"an answer that is no JSON, with status {status}", was_sent=True) from None
    if status == HTTPStatus.OK:
        return answer
    code = str(answer.get("__type", f"status {status}")).rpartition("#")[2]
    message = str(answer.get("message") or answer.get("Message") or "")
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        # It may have been done all the same.
        raise Lost(f"it failed inside: {message} ({code})", was_sent=True)
    raise Refused(code, message, answer)


def _lost(error: PyreqwestError, within: float) -> Lost:
    """What it means that no answer came. The innermost cause is the one that says something."""
    causes = getattr(error, "details", {}).get("causes") or []
    messages = [str(cause["message"]) for cause in causes] or [error.message]
    if _NEVER_SENT in messages:
        return Lost(f"cannot connect: {messages[-1]}", was_sent=False)
    if isinstance(error, TimeoutError):
        return Lost(f"no answer within {within:g} s", was_sent=True)
    return Lost(f"the connection broke: {messages[-1]}", was_sent=True)
