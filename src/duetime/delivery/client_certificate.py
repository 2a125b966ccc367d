"""A client certificate: by which a receiver knows who calls it, before anything is said."""

import contextlib
import os
import secrets
import ssl
from collections.abc import Iterator
from pathlib import Path
from tempfile import NamedTemporaryFile


class ClientCertificate:
    """A chain with its private key, and the authorities that may vouch for the receiver."""

    __slots__ = ("_chain", "_key", "authorities", "id")

    def __init__(self, id_: str, *, chain: str, key: bytes, authorities: str | None) -> None:
        """Take them as PEM; ``id_`` is no other certificate's, nor this one's after a change."""
        self.id = id_
        self._chain = chain
        self._key = key
        self.authorities = authorities  # None: those that the machine trusts

    def load_into(self, context: ssl.SSLContext) -> None:
        """Have it shown on connections that are made with this; takes a while."""
        password = secrets.token_hex(32)
        # Python reads a key from a file only. Nobody else can read this one, be it found.
        sealed = _sealed(self._key, password)
        with _file(self._chain.encode() + b"\n" + sealed) as path:
            context.load_cert_chain(path, password=password)


def _sealed(key: bytes, password: str) -> bytes:
    # Whoever has no client certificates need not have the library.
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415

    return serialization.load_pem_private_key(
        key, None, unsafe_skip_rsa_key_validation=True
    ).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(password.encode()),
    )


@contextlib.contextmanager
def _file(content: bytes) -> Iterator[Path]:
    """A file for as long as it is needed, in memory where the system has that."""
    if hasattr(os, "memfd_create"):
        with open(os.memfd_create("duetime"), "wb") as file:  # noqa: PTH123 - it has no path yet
            file.write(content)
            file.flush()
            yield Path(f"/proc/self/fd/{file.fileno()}")
    else:
        with NamedTemporaryFile() as file:
            file.write(content)
            file.flush()
            yield Path(file.name)
