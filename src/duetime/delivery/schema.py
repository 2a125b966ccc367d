"""A JSON Schema that the answers of receivers must match, compiled from what a user has set.

Both the schema and the answers are a tenant's, and they are held together in the event loop that
serves all tenants. So a schema is refused that could take long over a short answer, and an answer
that would take too long with this schema; nothing is ever fetched.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from duetime.delivery.schema_size import SchemaSize, UnfitSchema, size_of
from duetime.delivery.terms import Check

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError, Validator

LONGEST_SCHEMA = 16 * 1024  # bytes
MOST_WORK = 250_000  # about 25 ms at the very worst; with what people write, far below 1 ms

_DRAFTS = frozenset(
    {
        "https://json-schema.org/draft/2020-12/schema",
        "https://json-schema.org/draft/2019-09/schema",
        "http://json-schema.org/draft-07/schema",
        "http://json-schema.org/draft-06/schema",
        "http://json-schema.org/draft-04/schema",
    }
)
# Of a compiled pattern: a UUID takes 4 KiB. The time that it takes grows with it.
_LARGEST_PATTERN = 4 * 1024
_LARGEST_CACHE = 64 * 1024

_BYTES_PER_VALUE = 32  # a long string is as much work as several short ones
_LONGEST_POINTER = 200

_NAMED = frozenset({"properties", "patternProperties"})

_MISMATCH = "the answer does not match response_schema"
_NOT_INSTALLED = "needs a package that is not installed: pip install 'duetime[schema]'"

# Python's own floats: msgspec's take a hundred times as long where their exponents are large.
_decode = msgspec.json.Decoder(float_hook=float).decode
_NO_JSON = (msgspec.MsgspecError, ValueError, RecursionError)


@lru_cache(maxsize=256)
def compiled(text: str) -> Check:
    """Read a schema, as JSON; UnfitSchema says what is wrong with it."""
    if len(text.encode()) > LONGEST_SCHEMA:
        raise UnfitSchema(f"must be at most {LONGEST_SCHEMA} bytes")
    try:
        schema = _decode(text)
    except _NO_JSON:
        raise UnfitSchema("must be valid JSON") from None
    if not isinstance(schema, dict):
        raise UnfitSchema("must be an object")
    draft = schema.get("$schema")
    if draft is not None and (not isinstance(draft, str) or draft.rstrip("#") not in _DRAFTS):
        raise UnfitSchema("$schema: must name draft 2020-12, 2019-09, 7, 6 or 4")
    size = size_of(schema)
    return _AnswerSchema(_validator(schema), size, frozenset(_names(schema))).problem


def _validator(schema: dict[str, Any]) -> "Validator":
    try:
        import jsonschema_rs  # noqa: PLC0415 - whoever has no schema need not have it
    except ImportError:
        raise UnfitSchema(_NOT_INSTALLED) from None
    limits = jsonschema_rs.RegexOptions(size_limit=_LARGEST_PATTERN, dfa_size_limit=_LARGEST_CACHE)
    try:
        return jsonschema_rs.validator_for(
            schema,
            retriever=_refuse,
            pattern_options=limits,
            # To see whether a text is an e-mail address takes as long as whoever wrote it likes.
            validate_formats=False,
        )
    except jsonschema_rs.ValidationError as error:
        at = _pointer(error.instance_path, None)
        if getattr(error.kind, "format", None) == "regex":
            raise UnfitSchema(
                f"{at}: must be a regular expression without look-around and back-references that"
                f" takes at most {_LARGEST_PATTERN} bytes when it is compiled"
            ) from None
        raise UnfitSchema(f"not a valid JSON Schema: {error.kind.name} fails at {at}") from None


def _refuse(_uri: str) -> Any:
    raise ValueError("nothing is fetched")


class _AnswerSchema:
    """A compiled schema, and how much work it is."""

    def __init__(self, validator: "Validator", size: SchemaSize, names: frozenset[str]) -> None:
        self._validator = validator
        self._is_valid = validator.is_valid
        self._size = size
        # How long answers are at least that could be too much work: most are far shorter.
        self._long = MOST_WORK // (2 * size.values + 4 * size.patterns)
        self._names = names  # those in the schema itself: they may be told

    def problem(self, body: bytes) -> str | None:
        """What is wrong with an answer, in words that quote nothing of it; None: nothing."""
        if not body:
            return f"{_MISMATCH}: it is empty"
        if len(body) > self._long and self._work(body) > MOST_WORK:
            return f"{_MISMATCH}: it is too large to be checked by it"
        try:
            content = _decode(body)
        except _NO_JSON:
            return f"{_MISMATCH}: it is not valid JSON"
        if self._is_valid(content):
            return None
        return f"{_MISMATCH}: {self._difference(content)}"

    def _work(self, body: bytes) -> int:
        """About how much there is to do, in tenths of a microsecond at the very worst."""
        length = len(body)
        # Each value comes first of all, or behind one of these.
        values = 1 + body.count(b",") + body.count(b"[") + body.count(b"{")
        values += length // _BYTES_PER_VALUE
        return self._size.values * values + 4 * self._size.patterns * length

    def _difference(self, content: Any) -> str:
        import jsonschema_rs  # noqa: PLC0415 - it is there, or this were not

        try:
            self._validator.validate(content)
        except jsonschema_rs.ValidationError as error:
            return f"{_keyword(error)} fails at {_pointer(error.instance_path, self._names)}"
        return "it is another"  # cannot be: the two agree


def _keyword(error: "ValidationError") -> str:
    """Which keyword it was; of ``required``, with what is missing, which is the schema's word."""
    name = error.kind.name
    if name == "required":
        return f"required {_shortened(str(getattr(error.kind, 'property', '')))!r}"
    if name == "falseSchema":  # where it stands says it, unless that is the name of a property
        *_, before, last = (None, None, *error.schema_path)
        return "false" if before in _NAMED else _shortened(str(last or "false"))
    return name


def _pointer(path: Sequence[str | int], names: frozenset[str] | None) -> str:
    """Where something is; names that only the receiver knows are hidden behind a star."""
    if not path:
        return "its root"
    parts = [
        str(part) if names is None or isinstance(part, int) or part in names else "*"
        for part in path
    ]
    return _shortened("".join("/" + part.replace("~", "~0").replace("/", "~1") for part in parts))


def _shortened(text: str) -> str:
    """A text on one line, that is not too long."""
    text = "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)
    return text if len(text) <= _LONGEST_POINTER else text[:_LONGEST_POINTER] + "..."


def _names(schema: Any) -> set[str]:
    if isinstance(schema, dict):
        return set(schema).union(*map(_names, schema.values()))
    if isinstance(schema, list):
        return set[str]().union(*map(_names, schema))
    return set()
