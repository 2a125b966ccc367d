"""What Cassandra, its driver and the network throw, as the contract wants it."""

import struct

import cassandra
from cassandra.cluster import NoHostAvailable
from cassandra.connection import ConnectionBusy, ConnectionException
from cassandra.pool import NoConnectionsAvailable
from cassandra.protocol import ErrorMessage, OverloadedErrorMessage

from duetime.stores.translation import translating

_UNWRITABLE = (struct.error, UnicodeError, OverflowError)  # a value that no column can hold

ENGINE_ERRORS = (
    cassandra.DriverException,
    ErrorMessage,
    NoHostAvailable,
    NoConnectionsAvailable,
    ConnectionBusy,
    ConnectionException,
    OSError,
    TimeoutError,
    *_UNWRITABLE,
)

# After these, nothing was begun: no server got the request, or it found it wrong. All others may
# come in the middle: a server that finds too few others up may have asked some of them before.
_REFUSALS = (
    NoHostAvailable,
    NoConnectionsAvailable,
    ConnectionBusy,
    cassandra.RequestValidationException,
    *_UNWRITABLE,
)

_MEANINGS: tuple[tuple[type[BaseException], str], ...] = (
    (NoHostAvailable, "no server of the cluster can be reached"),
    (cassandra.Unavailable, "too few of the servers with a copy are up"),
    (cassandra.AuthenticationFailed, "the user or the password is wrong"),
    (cassandra.Unauthorized, "this user may not do that"),
    (cassandra.Timeout, "too few of the servers with a copy answered in time"),
    (cassandra.OperationTimedOut, "no answer in time"),
    (TimeoutError, "no answer in time"),
    (OverloadedErrorMessage, "it has too much to do"),
    (ConnectionException, "the connection was lost"),
)


def meaning(error: BaseException) -> str:
    """A sentence on what went wrong, fit for a log and for users."""
    causes = error.errors if isinstance(error, NoHostAvailable) else {}
    for cause in causes.values() if isinstance(causes, dict) else ():
        if isinstance(cause, cassandra.AuthenticationFailed):
            error = cause  # one that was reached, and knows better
    for kind, sentence in _MEANINGS:
        if isinstance(error, kind):
            return sentence
    return str(error) or type(error).__name__


def may_have_begun(error: BaseException) -> bool:
    """Tell whether a write that failed like this may have been made, or may yet be."""
    return not isinstance(error, _REFUSALS)


translated = translating("Cassandra", ENGINE_ERRORS, meaning)
