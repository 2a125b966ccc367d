"""Subjects: which may be published on, and how any text becomes one token of one."""

import re
from collections.abc import Iterable
from functools import lru_cache
from urllib.parse import quote, unquote

LONGEST = 255

_ODD = re.compile(r"[\s\x00-\x20\x7f]")
_OURS_ALONE = re.compile(r"[A-Za-z0-9_-]*", re.ASCII)


@lru_cache(maxsize=4096)
def problem_with(subject: str) -> str | None:
    """Why nobody can publish on this subject, or None if they can."""
    if not subject:
        return "must not be empty"
    if len(subject.encode(errors="replace")) > LONGEST:
        return f"must be at most {LONGEST} bytes"
    if _ODD.search(subject) or not subject.isprintable():
        return "must not have spaces or control characters"
    if "*" in subject or ">" in subject:
        return "must not have the wildcards * and >"
    if not all(subject.split(".")):
        return "must not have empty parts between its dots"
    return None


@lru_cache(maxsize=4096)
def token(text: str) -> str:
    """Any text as one token: what is not a letter, a digit, _ or - is percent-encoded."""
    if _OURS_ALONE.fullmatch(text):
        return text
    return quote(text, safe="").replace(".", "%2E").replace("~", "%7E")


def covers(pattern: str, other: str) -> bool:
    """Tell whether a pattern takes all subjects that another one, or a subject, stands for."""
    parts, others = pattern.split("."), other.split(".")
    for number, part in enumerate(parts):
        if part == ">":
            return len(others) > number
        if number >= len(others) or others[number] == ">":
            return False
        if part not in {"*", others[number]}:
            return False
    return len(parts) == len(others)


def is_below(subject: str, owners: Iterable[str]) -> bool:
    """Tell whether a subject is one of these, or begins with one of them and a dot."""
    below = f"{subject}."
    return any(below.startswith(f"{owner}.") for owner in owners)


def untoken(text: str) -> str | None:
    """What ``token`` made this token of; None if it made it of nothing.

    There is one token of each text. Who is denied that must not get by with another spelling.
    """
    made_of = unquote(text)
    return made_of if token(made_of) == text else None
