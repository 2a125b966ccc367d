"""What PostgreSQL, its driver and the network throw, as the contract wants it."""

import asyncpg

from duetime.stores.translation import translating

ENGINE_ERRORS = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
    TimeoutError,
    EOFError,
    UnicodeError,
    OverflowError,
)

# What the most frequent ones mean, in words that say what to do. By SQLSTATE.
_MEANINGS = {
    "55P03": "somebody held a lock for too long",
    "57014": "it took too long and was given up",
    "25006": "this server takes no writes: it is a standby",
    "40P01": "two writes waited for each other",
    "53300": "it has no connection free: raise max_connections, or lower pool_size",
    "53100": "its disk is full",
}

# After these, a connection is of no use, although it stands.
_SPOILING = {"25006"}


def meaning(error: BaseException) -> str:
    """A sentence on what went wrong, fit for a log and for users."""
    state = getattr(error, "sqlstate", None)
    text = str(error) or type(error).__name__
    if isinstance(error, TimeoutError):
        text = "no answer in time"
    known = _MEANINGS.get(str(state))
    return f"{known} ({text})" if known else text


def spoils_connection(error: BaseException) -> bool:
    """Tell whether the next one had better not use the same connection."""
    return getattr(error, "sqlstate", None) in _SPOILING


translated = translating("PostgreSQL", ENGINE_ERRORS, meaning)
