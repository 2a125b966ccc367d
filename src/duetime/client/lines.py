"""Lines: what arrives in pieces, line by line."""

from http import HTTPStatus

LINES_TYPE = "application/x-ndjson"


def is_stream(status: int, content_type: str | None, wanted: str) -> bool:
    """Tell whether an answer is the stream that was wanted, and no refusal or somebody's page."""
    kind = (content_type or "").partition(";")[0].strip().lower()
    return status == HTTPStatus.OK and kind == wanted


class Lines:
    """Puts pieces together; what has no end of line yet waits for the next piece."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []

    def feed(self, piece: bytes) -> list[bytes]:
        """The lines that are whole with this piece, without their ends; empty ones are left out."""
        *whole, rest = piece.split(b"\n")
        if whole:
            whole[0] = b"".join([*self._rest, whole[0]])
            self._rest.clear()
        self._rest.append(rest)
        return [line for line in whole if line.strip()]

    def end(self) -> list[bytes]:
        """The last line, if it had no end."""
        rest = b"".join(self._rest)
        return [rest] if rest.strip() else []
