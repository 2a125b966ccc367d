"""Translations: what becomes of an error that a driver or the network threw at a store."""

import asyncio
import ssl

import pytest

from duetime.errors import StoreUnavailable
from duetime.stores.opening import open_store

NETWORK_ERRORS = [
    OSError("unreachable"),
    ConnectionResetError("reset"),
    ssl.SSLError("bad handshake"),
    ssl.SSLCertVerificationError("self-signed"),
    TimeoutError(),
    asyncio.IncompleteReadError(b"", 4),
    OverflowError("too large"),
]


def translation(translated, error):
    """What a store says of an error."""
    with pytest.raises(StoreUnavailable) as raised, translated():
        raise error
    assert raised.value.__cause__ is error
    return str(raised.value)


async def refused(url, kind=StoreUnavailable):
    """How a store that cannot be opened says so."""
    store = open_store(url)
    with pytest.raises(kind) as raised:
        await store.migrate()
    with pytest.raises(StoreUnavailable, match="not open"):
        await store.ping()
    await store.close()
    return str(raised.value)
