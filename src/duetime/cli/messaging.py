"""Messaging: the connection to NATS that the parts of a node share, if it is to have one."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from duetime.clock import Clock
from duetime.config import Settings
from duetime.errors import ConfigurationError, NatsUnavailable
from duetime.nats import tls
from duetime.nats.connection import Connection
from duetime.nats.credentials import Credentials

CONNECTED_WITHIN = 10.0  # seconds


@asynccontextmanager
async def connected(
    settings: Settings, clock: Clock, name: str, *, insists: bool = True
) -> AsyncIterator[Connection | None]:
    """Connect to NATS; None if there is none. ConfigurationError if no server can be reached.

    Whoever does not insist has a connection then that is made as soon as one can be.
    """
    if not settings.nats_url:
        yield None
        return
    connection = _connection(settings, clock, name)
    try:
        await connection.connect(CONNECTED_WITHIN, insists=insists)
    except NatsUnavailable as error:
        raise ConfigurationError(
            f"NATS_URL: {error}; see to it that one runs there and lets us in, or correct NATS_URL "
            "(or NATS_HOST) and what else there is of NATS_*"
        ) from None
    try:
        yield connection
    finally:
        await connection.close()


def own_subjects(settings: Settings) -> list[str]:
    """What the subjects begin with on which Duetime itself speaks and is spoken to."""
    return [settings.nats_prefix, *(prefix for prefix, _ in settings.nats_tenants)]


def _connection(settings: Settings, clock: Clock, name: str) -> Connection:
    credentials = Credentials(
        token=settings.nats_token or "",
        nkey_seed=settings.nats_nkey_seed or "",
        creds=settings.nats_creds or "",
    )
    credentials.check()
    files = (settings.nats_tls_ca, settings.nats_tls_cert, settings.nats_tls_key)
    context = tls.context(*(file or "" for file in files)) if any(files) else None
    return Connection(
        settings.nats_url, clock, credentials=credentials, tls=context, name=f"duetime {name}"
    )
