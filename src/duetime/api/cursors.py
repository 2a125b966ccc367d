"""Cursors: places in a list, as they are handed out, which only this list of this tenant takes."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import TypeVar

import msgspec

from duetime.api.seal import Seal
from duetime.errors import InvalidRequest

PlaceT = TypeVar("PlaceT")


class Cursors:
    """The cursors of one list of a tenant."""

    def __init__(self, seal: Seal, tenant: str, name: str) -> None:
        self._seal = seal
        self._purpose = msgspec.json.encode((tenant, name))

    def write(self, place: str | tuple[int | str, ...]) -> str:
        """A place in the list, sealed."""
        return _to_text(self._seal.close(msgspec.json.encode(place), self._purpose))

    def read(self, cursor: str | None, type_: type[PlaceT]) -> PlaceT | None:
        """The place that was handed out; None if there is no cursor."""
        if cursor is None:
            return None
        try:
            sealed = urlsafe_b64decode(cursor + "==")
            content = self._seal.open(sealed, self._purpose)
            # What is no letter of Base64 was passed over: then it is not what was handed out.
            if content is not None and _to_text(sealed) == cursor:
                return msgspec.json.decode(content, type=type_)
        except (ValueError, msgspec.DecodeError):  # not Base64; or the place of another version
            pass
        raise InvalidRequest("cursor: is not one that this list gave out")


def _to_text(sealed: bytes) -> str:
    return urlsafe_b64encode(sealed).decode().rstrip("=")
