"""The name of a key: what people read in the audit, so it must not look like one that is taken."""

import unicodedata

from duetime.errors import InvalidRequest
from duetime.tenancy.caller import OPERATOR, SERVICE

# Those who act without a key of a tenant, and who goes by that name.
_TAKEN = {OPERATOR.name: "the API_KEY of the service", SERVICE: "the service itself"}

_UNSEEN = {"Cf", "Zl", "Zp"}  # formats, such as those of no width, and separators of lines
_MARKS = {"Mn", "Me"}  # on the letter before them; some of them are not seen either


def check_key_name(name: str) -> None:
    """Refuse what nobody can see, and what reads like the name of somebody else.

    Letters of other alphabets that look alike are not found: those who must be sure look for the
    id of the key, which a line of the operator has not.
    """
    if any(unicodedata.category(character) in _UNSEEN for character in name):
        raise InvalidRequest("name: has a character that is not allowed here")
    plain = _plain(name)
    if plain in _TAKEN:
        raise InvalidRequest(f"name: only {_TAKEN[plain]} is called '{plain}'")


def _plain(name: str) -> str:
    """A name as it reads: in small letters of the usual width, without marks."""
    parts = unicodedata.normalize("NFKD", name)
    letters = "".join(each for each in parts if unicodedata.category(each) not in _MARKS)
    return unicodedata.normalize("NFKC", letters.casefold()).strip()
