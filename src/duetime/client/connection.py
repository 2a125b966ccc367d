"""The connection to a service: how a call becomes an HTTP request, for both clients alike."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec
from pyreqwest.client import BaseClientBuilder
from pyreqwest.exceptions import BuilderError, PyreqwestError
from pyreqwest.request import BaseRequestBuilder

from duetime import __version__
from duetime.client.calls import Call
from duetime.client.errors import ClientError, ServiceUnreachable

DEFAULT_URL = "http://127.0.0.1:8080"

BuilderT = TypeVar("BuilderT", bound=BaseClientBuilder)
RequestT = TypeVar("RequestT", bound=BaseRequestBuilder)


class Connection:
    """Where the service is, and how to speak to it."""

    def __init__(self, url: str, api_key: str | None, tenant: str | None, timeout: float) -> None:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ClientError("the service's address must be an http or https URL")
        self.url = url.rstrip("/")
        self._api_key = api_key
        self._tenant = tenant
        self.timeout = timeout
        self._timeout = timedelta(seconds=timeout)

    def configure(
        self, builder: BuilderT, *, streams: bool = False, quiet_for: float = 0.0
    ) -> BuilderT:
        """Set up an HTTP client. A redirect is an answer: the key goes nowhere else.

        What streams may take its time as a whole, but not between one piece and the next: there it
        may be quiet for so many seconds, though the client has less.
        """
        patient = builder.read_timeout if streams else builder.timeout
        return (
            patient(max(self._timeout, timedelta(seconds=quiet_for)))
            .user_agent(f"duetime-client/{__version__}")
            .follow_redirects(False)
        )

    def address(self, call: Call[Any]) -> str:
        return self.url + call.path

    def fill(self, request: RequestT, call: Call[Any]) -> RequestT:
        """Give a request all that the call has."""
        if self._api_key:
            request = request.header("X-API-Key", self._api_key, is_sensitive=True)
        if self._tenant:
            request = request.header("X-Tenant-ID", self._tenant)
        if call.patience > self._timeout.total_seconds():
            request = request.timeout(timedelta(seconds=call.patience))
        if call.query:
            request = request.query(_parameters(call.query))
        if call.headers:
            request = request.headers(call.headers)
        if call.body is not None:
            body = msgspec.json.encode(call.body)
            request = request.header("Content-Type", "application/json").body_bytes(body)
        return request

    @contextmanager
    def translating_errors(self) -> Iterator[None]:
        """Turn the HTTP library's errors into ours."""
        try:
            yield
        except (BuilderError, ValueError) as error:
            raise ClientError(f"the request cannot be made: {error}") from error
        except TimeoutError as error:
            raise ServiceUnreachable(f"no answer from {self.url} in time") from error
        except PyreqwestError as error:
            raise ServiceUnreachable(f"cannot reach {self.url}: {_why(error)}") from error

    @contextmanager
    def translating_breaks(self) -> Iterator[None]:
        """The same while an answer is being read that had begun well."""
        try:
            yield
        except TimeoutError as error:
            raise ServiceUnreachable(f"the answer of {self.url} does not go on") from error
        except PyreqwestError as error:
            raise ServiceUnreachable(
                f"the answer of {self.url} broke off: {_why(error)}"
            ) from error


def _parameters(query: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The parameters one by one, those that are repeated as often as they are there."""
    return [
        (name, value)
        for name, given in query.items()
        for value in (given if isinstance(given, list | tuple) else (given,))
    ]


def _why(error: PyreqwestError) -> str:
    """The innermost cause is the one that says something."""
    causes = getattr(error, "details", {}).get("causes") or []
    return str(causes[-1]["message"]) if causes else error.message
