"""The seal: what a client keeps for the service, so that it can neither be read nor be altered.

Cursors are sealed. A page may end at a timer or a line that is not the caller's, wherever the store
had to look at those of others, and its cursor has to say where that was.

It is a synthetic IV, as in RFC 5297, of what Python brings along: the first 16 bytes of an
HMAC-SHA256 over the content are its tag, and the content is hidden under what SHAKE256 makes of a
second key and that tag. So it takes no random bytes, which could be drawn twice, and no store to
keep a number in: two contents have the same stream only if they have the same tag, by a chance of
one in 2^128 for each pair. And what was altered gives another content, whose tag does not fit.

Both keys are made of the ``API_KEY``, which all nodes share. They are made slowly, because who has
something sealed can try out with it what that key may be: where a person made it up, each try
should cost them some hundredths of a second, not a microsecond. It is PBKDF2, and not scrypt, since
every build of Python has it, also where OpenSSL is bound to FIPS.

The seal hides what is said, not how long it is, nor that the same was said twice. And it does not
hide what the service does with it: a cursor still shows which of one's own timers lie behind it.
"""

import hmac
from functools import lru_cache
from hashlib import pbkdf2_hmac, shake_256
from typing import NamedTuple

_TAG = 16  # bytes
_LENGTH = 4  # bytes that say how long the purpose is
_ROUNDS = 100_000  # to make the keys in


class Seal:
    """Seals and opens, under the keys of one service."""

    def __init__(self, secret: str) -> None:
        self._keys = _keys_from(secret)

    def close(self, content: bytes, purpose: bytes) -> bytes:
        """Seal a content, to be opened for the same purpose only."""
        tag = self._tag(content, purpose)
        return tag + self._crossed(content, tag)

    def open(self, sealed: bytes, purpose: bytes) -> bytes | None:
        """The content; None if it was not sealed here, or for another purpose."""
        tag = sealed[:_TAG]
        content = self._crossed(sealed[_TAG:], tag)
        return content if hmac.compare_digest(tag, self._tag(content, purpose)) else None

    def _tag(self, content: bytes, purpose: bytes) -> bytes:
        # With its length, so that no end of a purpose passes for the beginning of a content.
        said = len(purpose).to_bytes(_LENGTH) + purpose + content
        return hmac.digest(self._keys.for_tags, said, "sha256")[:_TAG]

    def _crossed(self, text: bytes, tag: bytes) -> bytes:
        """A content hidden, or a hidden one shown: it is the same, done twice."""
        stream = shake_256(self._keys.for_streams + tag).digest(len(text))
        return (int.from_bytes(text) ^ int.from_bytes(stream)).to_bytes(len(text))


class _Keys(NamedTuple):
    for_tags: bytes
    for_streams: bytes


@lru_cache(maxsize=1)
def _keys_from(secret: str) -> _Keys:
    """Two keys that tell nothing of each other, nor of the secret."""
    # All nodes must come to the same, so there is no salt but the name of what it is for.
    stretched = pbkdf2_hmac("sha256", secret.encode(), b"duetime cursors", _ROUNDS)
    return _Keys(*(hmac.digest(stretched, label, "sha256") for label in (b"tags", b"streams")))
