"""The name of a key: what people read in the audit, so it must not look like one that is taken."""

import unicodedata

from duetime.errors import InvalidRequest
from duetime.tenancy.caller import NATS, OPERATOR, SERVICE

# Those who act without a key of a tenant, and who goes by that name.
_TAKEN = {
    OPERATOR.name: "the API_KEY of the service",
    SERVICE: "the service itself",
    NATS: "who was let in by NATS",
}

# Formats, such as those of no width, separators of lines, and what has no form of its own ...
_UNSEEN = {"Cf", "Cn", "Co", "Zl", "Zp"}
_BLANK = set("\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")  # ... and letters that are not drawn
_MARKS = {"Mn", "Me"}  # on the letter before them; some of them are not seen either


def check_key_name(name: str) -> None:
    """Refuse what nobody can see, and what reads like the name of somebody else.

    Letters of other alphabets that look alike are not found: those who must be sure look for the
    id of the key, which a line of the operator has not.
    """
    plain = _plain(name)
    if not plain or any(unicodedata.category(each) in _UNSEEN or each in _BLANK for each in name):
        raise InvalidRequest("name: has a character that is not allowed here")
    if plain in _TAKEN:
        raise InvalidRequest(f"name: only {_TAKEN[plain]} is called '{plain}'")


def _plain(name: str) -> str:
    """A name as it reads: in small letters of the usual width, without marks."""
    parts = unicodedata.normalize("NFKD", name)
    letters = "".join(each for each in parts if unicodedata.category(each) not in _MARKS)
    return unicodedata.normalize("NFKC", letters.casefold()).strip()
