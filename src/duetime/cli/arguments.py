"""Arguments that are more than text: read where a slip is told by its flag."""

import argparse
import sys
from pathlib import Path
from typing import Any

import msgspec

from duetime.durations import parse_duration
from duetime.webhooks import PREFIX


def duration(text: str) -> str:
    """A duration, as it was written."""
    try:
        parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{error}, not {text!r}") from None
    return text


def header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        raise argparse.ArgumentTypeError(f"must be 'Name: value', not {text!r}")
    return name.strip(), value.strip()


def json_text(text: str) -> msgspec.Raw:
    """JSON as it was written: from the argument, from a file, or from standard input."""
    try:
        if text == "-":
            content = sys.stdin.buffer.read()
        elif text.startswith("@"):
            content = Path(text[1:]).read_bytes()
        else:
            content = text.encode()
        msgspec.json.decode(content)
    except OSError as error:
        raise argparse.ArgumentTypeError(f"cannot read {text[1:]}: {error.strerror}") from None
    except (msgspec.DecodeError, UnicodeError) as error:
        hint = "" if text[:1] in {"-", "@"} else """; a text needs quotes of its own: '"text"'"""
        raise argparse.ArgumentTypeError(f"must be JSON: {error}{hint}") from None
    return msgspec.Raw(content.strip())


def told(text: str) -> Any:
    """Who is told of a failure: a URL, or the whole of it as JSON; "none" is nobody."""
    if text == "none":
        return msgspec.Raw(b"null")
    if text[:1] in {"{", "@"}:
        return json_text(text)
    return {"callback": {"type": "http", "url": text}}


def metadata_pair(text: str) -> tuple[str, Any]:
    """A path into the metadata, and the value there: JSON if it is that, else a text."""
    path, equals, value = text.partition("=")
    if not equals or not path:
        raise argparse.ArgumentTypeError(f"must be PATH=VALUE, not {text!r}")
    try:
        return path, msgspec.json.decode(value)
    except msgspec.DecodeError:
        return path, value


def shift(text: str) -> str:
    """A duration, forwards or with a minus sign backwards, as it was written."""
    duration(text.removeprefix("-"))
    return text


def key_id(text: str) -> str:
    """The id of a key. Who passes the key itself means its id: its secret goes nowhere."""
    mark, _, rest = text.partition("_")
    return rest.partition("_")[0] if mark == "dt" else text


def secret_id(text: str) -> str:
    """The id of a signing secret; the secret itself goes nowhere."""
    if PREFIX in text:
        raise argparse.ArgumentTypeError("must be the id of the secret, as `list` shows it")
    return text


def given(args: argparse.Namespace, *names: str) -> dict[str, Any]:
    """Those of these arguments that were given."""
    values = {name: getattr(args, name) for name in names}
    return {name: value for name, value in values.items() if value is not None}
