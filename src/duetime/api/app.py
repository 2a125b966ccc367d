"""The app: takes each request through its checks to its operation, and answers in the envelope."""

from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from functools import cached_property, partial
from importlib.resources import files
from urllib.parse import unquote_to_bytes

import msgspec
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from duetime.admission import hung_up
from duetime.api.actions import Actions
from duetime.api.api_keys import ApiKeys
from duetime.api.audit import Audit
from duetime.api.auth import Authentication
from duetime.api.bodies import Bodies
from duetime.api.credentials import Credentials
from duetime.api.envelope import Code, Reply, encode, failure
from duetime.api.events import Events
from duetime.api.gate import NOBODY, Gate, check_role
from duetime.api.groups import Groups
from duetime.api.health import Health
from duetime.api.nodes import Nodes
from duetime.api.openapi import describe
from duetime.api.operation import Operation
from duetime.api.proxies import Proxies
from duetime.api.request import Request
from duetime.api.seal import Seal
from duetime.api.secrets import Secrets
from duetime.api.signing_secrets import SigningSecrets
from duetime.api.streaming import Streaming, disconnected
from duetime.api.targets import Targets
from duetime.api.tenants import Tenants
from duetime.api.timers import Timers
from duetime.api.timers_by_key import TimersByKey
from duetime.api.usage import Usage
from duetime.api.whoami import Whoami
from duetime.errors import CallerGone, InvalidRequest, PayloadTooLarge, Unavailable
from duetime.service import Service
from duetime.tenancy.caller import Caller

_JSON = (b"content-type", b"application/json")
_CLOSE = (b"connection", b"close")


class Endpoint:
    """One path with all its operations."""

    def __init__(
        self,
        operations: list[Operation],
        gate: Gate,
        bodies: Bodies,
        proxies: Proxies,
        *,
        max_body: int,
        max_bulk_body: int,
    ) -> None:
        self._operations = {operation.method: operation for operation in operations}
        if get := self._operations.get("GET"):
            self._operations["HEAD"] = get  # the server leaves the body out
        self._allow = ", ".join(sorted(self._operations)).encode()
        self._gate = gate
        self._authentication = gate.authentication
        self._bodies = bodies
        self._proxies = proxies
        self._max_body = max_body
        self._max_bulk_body = max_bulk_body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        operation = self._operations.get(scope["method"])
        caller = NOBODY
        try:
            caller = await self._caller_of(scope, operation)
            reply = await self._answer(scope, receive, operation, caller)
        except CallerGone:
            return
        except Exception as error:  # noqa: BLE001 - whatever went wrong, the answer is an envelope
            reply = await self._gate.refuse(error, caller)
        if reply.stream is not None:
            failure = partial(self._gate.failure, caller=caller)
            answer = Streaming(reply, reply.stream, failure, self._gate.clock)
            failed = await answer.send(scope, receive, send)
            if failed is None:
                return
            reply = self._gate.failure(failed, caller)
        await respond(reply, send)

    async def _caller_of(self, scope: Scope, operation: Operation | None) -> Caller:
        if operation is not None and operation.role is None:
            return NOBODY
        headers = scope["headers"]
        peer, _ = scope.get("client") or (None, None)
        return await self._authentication.caller_of(
            headers,
            self._proxies.origin(peer, headers),
            of_deleted=operation is not None and operation.outlives_tenant,
        )

    async def _answer(
        self, scope: Scope, receive: Receive, operation: Operation | None, caller: Caller
    ) -> Reply:
        headers = scope["headers"]
        if operation is None:
            return Reply(
                405, "method not allowed", code=Code.INVALID, headers=((b"allow", self._allow),)
            )
        check_role(operation, caller)
        _check_path(scope)
        limit = self._max_bulk_body if operation.is_bulk else self._max_body
        try:
            body, room = await self._bodies.read(receive, headers, limit)
        except (PayloadTooLarge, InvalidRequest, Unavailable) as error:
            # The body was not read to its end, so nothing else can be read on its connection.
            reply = failure(error, caller)
            reply.headers += (_CLOSE,)
            return reply
        request = Request(
            headers=headers,
            query=scope["query_string"],
            path_params=scope["path_params"],
            body=body,
            caller=caller,
        )
        # For the lines it may have to stand in. A request is a task, so nobody else sees it.
        hung_up.set(partial(disconnected, receive))
        try:
            reply = await self._gate.perform(operation, request)
        finally:
            if room is not None:
                room.leave()
        if reply.stream is not None:
            reply.stream = self._parts_for(caller, reply.stream)
        return reply

    async def _parts_for(
        self, caller: Caller, parts: AsyncGenerator[bytes]
    ) -> AsyncGenerator[bytes]:
        """The parts of an answer, as long as its caller may have them."""
        async with aclosing(parts):
            async for part in parts:
                self._authentication.check_still(caller)
                yield part
            self._authentication.check_still(caller)  # or it would be taken for the whole


class Document:
    """Something that is the same for everybody: the description of the API, and its page.

    It is made when somebody first asks: the description would be a good part of a node's start.
    """

    def __init__(self, content_type: bytes, make: Callable[[], bytes]) -> None:
        self._content_type = content_type
        self._make = make

    @cached_property
    def _body(self) -> bytes:
        return self._make()

    @cached_property
    def _headers(self) -> list[tuple[bytes, bytes]]:
        return [
            (b"content-type", self._content_type),
            (b"content-length", str(len(self._body)).encode()),
            (b"x-content-type-options", b"nosniff"),
            (b"content-security-policy", b"frame-ancestors 'none'"),
            (b"referrer-policy", b"no-referrer"),
            (b"cache-control", b"no-cache"),
        ]

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        if scope["method"] not in {"GET", "HEAD"}:
            allow = ((b"allow", b"GET, HEAD"),)
            await respond(Reply(405, "method not allowed", code=Code.INVALID, headers=allow), send)
            return
        await send({"type": "http.response.start", "status": 200, "headers": self._headers})
        await send({"type": "http.response.body", "body": self._body})


def create_app(
    service: Service,
    api_key: str,
    *,
    max_body: int = 1 << 20,
    max_bulk_body: int = 32 << 20,
    bodies: Bodies | None = None,
    trusted_proxies: Sequence[str] = (),
    is_nats_connected: Callable[[], bool] | None = None,
) -> ASGIApp:
    """The API as an ASGI application."""
    gate = Gate(Authentication(api_key, service.rules, service.uses, service.clock), service.clock)
    bodies = bodies or Bodies(service.clock)
    proxies = Proxies(trusted_proxies)
    seal = Seal(api_key)
    operations = [
        operation
        for resource in (
            Timers(service, seal, max_timer=max_body),
            TimersByKey(service),
            Actions(service, seal),
            Groups(service),
            Credentials(service),
            Targets(service),
            Tenants(service),
            ApiKeys(service),
            SigningSecrets(service),
            Secrets(service),
            Whoami(),
            Usage(service),
            Audit(service, seal),
            Events(service, seal),
            Nodes(service),
            Health(service, is_nats_connected),
        )
        for operation in resource.operations()
    ]
    paths: defaultdict[str, list[Operation]] = defaultdict(list)
    for operation in operations:
        paths[operation.path].append(operation)
    endpoints: dict[str, ASGIApp] = {
        path: Endpoint(
            each,
            gate,
            bodies,
            proxies,
            max_body=max_body,
            max_bulk_body=max_bulk_body,
        )
        for path, each in paths.items()
    }
    page = files("duetime.api").joinpath("docs.html")
    documents = {
        "/openapi.json": Document(
            b"application/json", lambda: msgspec.json.encode(describe(operations))
        ),
        "/docs": Document(b"text/html; charset=utf-8", page.read_bytes),
    }
    endpoints |= documents

    async def not_found(_scope: Scope, _receive: Receive, send: Send) -> None:
        await respond(
            Reply(404, "no such path; /docs lists what there is", code=Code.NOT_FOUND), send
        )

    # Plain paths come first, and need no search: the "actions" of /timers/actions is no id.
    plain = {path: endpoint for path, endpoint in endpoints.items() if "{" not in path}
    others = [Route(path, each) for path, each in endpoints.items() if path not in plain]
    router = Router(others, redirect_slashes=False, default=not_found)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        endpoint = plain.get(scope["path"])
        if endpoint is None:
            await router(scope, receive, send)
        else:
            scope["path_params"] = {}
            await endpoint(scope, receive, send)

    return app


async def respond(reply: Reply, send: Send) -> None:
    """Send an answer in its envelope."""
    body = encode(reply)
    headers = [_JSON, (b"content-length", str(len(body)).encode()), *reply.headers]
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _check_path(scope: Scope) -> None:
    """Refuse a path that the server could not read, and in which it put U+FFFD for that."""
    if "\ufffd" in scope["path"]:
        try:
            unquote_to_bytes(scope["raw_path"]).decode()
        except UnicodeDecodeError:
            raise InvalidRequest("path: not valid UTF-8") from None
