"""The desk: takes each command through the checks of the API, and has an answer to all of them."""

from typing import Literal, NamedTuple

import msgspec

from duetime.api.answers import shown
from duetime.api.auth import Authentication
from duetime.api.envelope import Reply
from duetime.api.gate import NOBODY, Gate, check_role
from duetime.api.operation import Operation
from duetime.api.request import Request, header
from duetime.api.seal import Seal
from duetime.api.timers import Timers, id_of
from duetime.api.timers_by_key import TimersByKey
from duetime.clock import Millis
from duetime.commands.bodies import UpdateWhichTimer, WhichTimer, path_of
from duetime.errors import Forbidden, PayloadTooLarge, TooManyRequests
from duetime.nats import Message
from duetime.service import Service
from duetime.tenancy.caller import NATS, Caller

Headers = list[tuple[bytes, bytes]]

# What may be asked, and the request over HTTP that asks the same.
_SAME_AS = {
    "create": ("POST", "/timers"),
    "get": ("GET", "/timers/{id}"),
    "update": ("PUT", "/timers/{id}"),
    "cancel": ("DELETE", "/timers/{id}"),
}
VERBS = tuple(_SAME_AS)
READS = frozenset({"get"})  # these change nothing, so without an answer they are for nothing

_TENANT = b"x-tenant-id"


class Answer(NamedTuple):
    """What to answer, and for how many seconds it is to be kept back."""

    reply: Reply
    hold_for: float = 0.0


class Desk:
    """Answers commands."""

    def __init__(
        self,
        service: Service,
        api_key: str,
        *,
        trusts: Literal["keys", "subjects"],
        max_body: int,
    ) -> None:
        self._service = service
        authentication = Authentication(api_key, service.rules, service.uses, service.clock)
        self._gate = Gate(authentication, service.clock)
        self._asks_for_keys = trusts == "keys"
        self._max_body = max_body
        self._timers = Timers(service, Seal(api_key), max_timer=max_body)
        self._by_key = TimersByKey(service)
        same = {(each.method, each.path): each for each in self._timers.operations()}
        own = {"get": self._get, "update": self._update, "cancel": self._cancel}
        self._operations: dict[str, Operation] = {}
        for verb, which in _SAME_AS.items():
            handler = own.get(verb, same[which].handler)
            self._operations[verb] = msgspec.structs.replace(same[which], handler=handler)

    async def answer(
        self,
        verb: str,
        tenant: str,
        message: Message,
        *,
        key: str | None = None,
        sent_at: Millis | None = None,
    ) -> Answer:
        """Do what a message asks of a tenant's timers; whatever goes wrong is an answer too."""
        operation = self._operations[verb]
        caller = NOBODY
        try:
            headers = _headers(message)
            caller = await self._caller(headers, tenant)
            check_role(operation, caller)
            if len(message.data) > self._max_body:
                raise PayloadTooLarge(f"body: must be at most {self._max_body} bytes")  # noqa: TRY301 - as if the handler did
            request = Request(
                headers=headers,
                query=b"",
                path_params={},
                body=message.data,
                caller=caller,
                key=key,
                sent_at=sent_at,
            )
            return Answer(await self._gate.perform(operation, request))
        except Exception as error:  # noqa: BLE001 - whatever went wrong, the answer is an envelope
            hold_for = error.hold_for if isinstance(error, TooManyRequests) else 0.0
            return Answer(self._gate.failure(error, caller), hold_for)

    async def _caller(self, headers: Headers, tenant: str) -> Caller:
        authentication = self._gate.authentication
        if not self._asks_for_keys:
            return await authentication.vouched_for(tenant, NATS, headers)
        name = tenant.encode()
        if (named := header(headers, _TENANT)) is None:
            headers = [*headers, (_TENANT, name)]
        elif named != name:
            raise Forbidden("X-Tenant-ID: names another tenant than the subject")
        return await authentication.caller_of(headers, NATS, named_by="subject")

    async def _get(self, request: Request) -> Reply:
        request.path_params = path_of(request.decode(WhichTimer))
        by = self._timers if "id" in request.path_params else self._by_key
        return await by.get(request)

    async def _cancel(self, request: Request) -> Reply:
        request.path_params = path_of(request.decode(WhichTimer))
        by = self._timers if "id" in request.path_params else self._by_key
        return await by.cancel(request)

    async def _update(self, request: Request) -> Reply:
        body = request.decode(UpdateWhichTimer)
        path = request.path_params = path_of(body)
        if_match = request.if_match()
        if "id" in path:
            timer = await self._service.update(request.caller, id_of(request), body, if_match)
        else:
            timer = await self._service.update_by_key(
                request.caller, path["group"], path["timer_id"], body, if_match
            )
        return shown(timer, "timer updated successfully")


def _headers(message: Message) -> Headers:
    return [(name.lower().encode(), value.encode()) for name, value in message.headers.items()]
