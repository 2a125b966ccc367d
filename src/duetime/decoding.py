"""Decoding: from the bytes of a request to its type, with errors that name the field."""

import re
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from msgspec import Raw

from duetime.errors import InvalidRequest

DEEPEST = 64  # levels of nesting in a body
_LONGEST_QUOTE = 64
UNKNOWN_VALUE = "'{}' is not one of the known values"

BodyT = TypeVar("BodyT")
_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}


def decode(body: bytes | Raw, type_: type[BodyT]) -> BodyT:
    """Read a body as what it should be; InvalidRequest names the field that is wrong."""
    decoder = _decoders.get(type_)
    if decoder is None:
        decoder = _decoders[type_] = msgspec.json.Decoder(type_)
    try:
        decoded: BodyT = decoder.decode(body)
    except msgspec.ValidationError as error:
        raise InvalidRequest(sentence(str(error))) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"body: not valid JSON: {error}") from None
    except RecursionError:
        raise InvalidRequest("body: nested too deeply") from None
    return decoded


def check_bytes(body: bytes) -> None:
    """Refuse what is not UTF-8, and what is nested so deeply that readers would choke on it.

    Payloads are passed on unread, so nothing else would notice.
    """
    check_utf8(body)
    check_depth(body)


def check_utf8(body: bytes) -> None:
    """Refuse what is not UTF-8."""
    if not body.isascii():
        try:
            body.decode()
        except UnicodeDecodeError as error:
            raise InvalidRequest(f"body: not valid UTF-8 at byte {error.start}") from None


def check_depth(body: bytes) -> None:
    """Refuse what is nested too deeply; a body with few brackets need not be looked through."""
    if body.count(b"[") + body.count(b"{") > DEEPEST and _depth(body) > DEEPEST:
        raise InvalidRequest(f"body: nested more than {DEEPEST} levels deep")


_BRACKETS_OUTSIDE_STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*"|([\[{])|([\]}])', re.DOTALL)


def _depth(body: bytes) -> int:
    depth = deepest = 0
    for token in _BRACKETS_OUTSIDE_STRINGS.finditer(body):
        if token[1]:
            depth += 1
            deepest = max(deepest, depth)
        elif token[2]:
            depth -= 1
    return deepest


_AT = re.compile(r" - at `\$\.?(.*)`$")
_SENTENCES: list[tuple[re.Pattern[str], str]] = [
    (re.compile(r"^Object missing required field `(.*)`$", re.DOTALL), "required"),
    (re.compile(r"^Object contains unknown field `(.*)`$", re.DOTALL), "unknown field"),
]
_WORDS: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (re.compile(r"^Expected `(.*)`, got `(.*)`$"), r"must be \1, not \2"),
    (re.compile(r"^Expected `(\w+)` of length (.*)$"), r"must have a length \2"),
    (re.compile(r"^Expected `(\w+)` (>=|<=|<|>) (.*)$"), r"must be \2 \3"),
    (re.compile(r"^Expected `str` matching regex .*$"), "has a character that is not allowed here"),
    (
        re.compile(r"^Invalid (?:enum )?value '(.*)'$", re.DOTALL),
        lambda match: UNKNOWN_VALUE.format(shortened(match[1])),
    ),
    (re.compile(r"^Expected `(.*)`$"), r"must be \1"),
)
_TYPES = {"str": "a string", "int": "an integer", "float": "a number", "bool": "true or false"}
_TYPES |= {"object": "an object", "array": "an array", "null": "null"}


def sentence(text: str) -> str:
    """Turn msgspec's words into "field: what is wrong with it"."""
    path = ""
    if at := _AT.search(text):
        path, text = at[1].replace("[...]", ""), text[: at.start()]
        path = path.lstrip(".")
    for pattern, problem in _SENTENCES:
        if match := pattern.match(text):
            return f"{path}.{shortened(match[1])}: {problem}".lstrip(".")
    for pattern, words in _WORDS:
        if pattern.match(text):
            text = pattern.sub(words, text)
            break
    text = re.sub(r"(?<=must be )[\w| ]+(?=, not|$)|(?<=, not )\w+$", _type_name, text)
    return f"{path or 'body'}: {text}"


def shortened(text: str) -> str:
    """What a user sent, no longer than it helps to repeat it."""
    return text if len(text) <= _LONGEST_QUOTE else text[:_LONGEST_QUOTE] + "..."


def _type_name(match: re.Match[str]) -> str:
    return " or ".join(_TYPES.get(name.strip(), name.strip()) for name in match[0].split("|"))
