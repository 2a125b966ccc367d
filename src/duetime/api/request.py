"""A request, as far as the operations care: who asks, for what, and with which words."""

import re
from functools import cache
from typing import TypeVar, get_origin, get_type_hints
from urllib.parse import parse_qsl

import msgspec

from duetime.clock import Millis
from duetime.decoding import UNKNOWN_VALUE, check_bytes, check_utf8, decode, sentence
from duetime.errors import InvalidRequest
from duetime.requests import check_text
from duetime.tenancy.caller import Caller

IF_MATCH = r'^(\*|(W/)?"?[0-9]{1,18}"?)$'
_IF_MATCH = re.compile(IF_MATCH)

_PLACE = re.compile(r"\[\d+\]:")  # in a list of parameters that have the same name

BodyT = TypeVar("BodyT")
ParametersT = TypeVar("ParametersT", bound=msgspec.Struct)


class Request:
    """What an operation is given."""

    __slots__ = ("_headers", "_query", "body", "caller", "key", "path_params", "sent_at")

    def __init__(
        self,
        *,
        headers: list[tuple[bytes, bytes]],
        query: bytes,
        path_params: dict[str, str],
        body: bytes,
        caller: Caller,
        key: str | None = None,
        sent_at: Millis | None = None,
    ) -> None:
        self._headers = headers
        self._query = query
        self.path_params = path_params
        self.body = body
        self.caller = caller
        self.key = key  # under which a timer is created that has none of its own
        self.sent_at = sent_at  # if that was earlier: it was kept until somebody had time for it

    def header(self, name: str) -> str | None:
        """A header's value."""
        value = header(self._headers, name.lower().encode())
        if value is None:
            return None
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise InvalidRequest(f"{name}: not valid UTF-8") from None

    def if_match(self) -> int | None:
        """The version that the caller insists on, if any."""
        given = self.header("If-Match")
        if given is None or given == "*":
            return None
        if _IF_MATCH.fullmatch(given) is None:
            raise InvalidRequest('If-Match: must be an ETag of this timer such as "3"')
        return int(given.removeprefix("W/").strip('"'))

    def correlation_id(self) -> str | None:
        """The correlation id from the header, for a body that has none."""
        given = self.header("X-Correlation-ID")
        if given is not None:
            check_text(given, "X-Correlation-ID")
        return given

    def decode(self, type_: type[BodyT]) -> BodyT:
        """The body as what it should be."""
        check_bytes(self.body)
        return decode(self.body, type_)

    def decode_outline(self, type_: type[BodyT]) -> BodyT:
        """The body, but for the depth of its parts: that is checked when each is decoded."""
        check_utf8(self.body)
        return decode(self.body, type_)

    def parameters(self, type_: type[ParametersT]) -> ParametersT:
        """The query parameters as what they should be."""
        try:
            pairs = parse_qsl(
                self._query.decode(), keep_blank_values=True, errors="strict", max_num_fields=64
            )
        except ValueError:
            raise InvalidRequest("query: not valid UTF-8, or too many parameters") from None
        given = _gathered(pairs, type_)
        try:
            parameters = msgspec.convert(given, type_, strict=False)
        except msgspec.ValidationError as error:
            problem = sentence(str(error)).replace("unknown field", "unknown parameter")
            raise InvalidRequest(_PLACE.sub(":", problem, count=1)) from None
        for name, text in given.items():
            if getattr(parameters, name) is None:  # "null" was taken for none at all
                raise InvalidRequest(f"{name}: {UNKNOWN_VALUE.format(text)}")
        return parameters


def _gathered(
    pairs: list[tuple[str, str]], type_: type[msgspec.Struct]
) -> dict[str, str | list[str]]:
    """The parameters by name; those that are lists may be repeated, the others not."""
    given: dict[str, str | list[str]] = {name: [] for name, _ in pairs if name in lists_of(type_)}
    for name, text in pairs:
        gathered = given.setdefault(name, text)
        if isinstance(gathered, list):
            gathered.append(text)
    if sum(len(each) if isinstance(each, list) else 1 for each in given.values()) != len(pairs):
        raise InvalidRequest("query: a parameter is given twice")
    return given


@cache
def lists_of(type_: type[msgspec.Struct]) -> frozenset[str]:
    """Which parameters may be given more than once."""
    fields = msgspec.structs.fields(type_)
    hints = get_type_hints(type_)
    return frozenset(field.name for field in fields if get_origin(hints[field.name]) is list)


def header(headers: list[tuple[bytes, bytes]], name: bytes) -> bytes | None:
    """The first value of a header, by its lower-case name."""
    for key, value in headers:
        if key == name:
            return value
    return None
