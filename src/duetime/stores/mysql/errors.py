"""What MySQL, its driver and the network throw, as the contract wants it."""

from asyncmy import errors

from duetime.stores.translation import translating

ENGINE_ERRORS = (
    errors.MySQLError,
    OSError,
    TimeoutError,
    EOFError,
    UnicodeError,
    OverflowError,
)

DUPLICATE = 1062
# Of two that waited for each other, this one was rolled back, as if it had never begun. TiDB has
# names of its own for it, also for a conflict that it only sees when it commits.
ENTANGLED = frozenset({1213, 8002, 8022, 8028, 9007})

_UNKNOWN_DATABASE = 1049
_LEAST_OF_THE_CLIENT = 2000
_ABOVE_THE_CLIENT = 3000

# What the most frequent ones mean, in words that say what to do.
_MEANINGS = {
    1040: "it has no connection free: raise max_connections, or lower pool_size",
    1203: "it has no connection free: raise max_user_connections, or lower pool_size",
    1045: "the user or the password is not right, or a server without a key takes passwords only "
    "over TLS: then add ssl_mode=required",
    1021: "its disk is full",
    1114: "its disk is full",
    1153: "a packet was too large: raise max_allowed_packet",
    1205: "somebody held a lock for too long",
    1213: "two writes waited for each other",
    1290: "this server takes no writes: it is a replica",
    1792: "this server takes no writes: it is a replica",
    1836: "this server takes no writes: it is a replica",
    1969: "it took too long and was given up",
    3024: "it took too long and was given up",
    _UNKNOWN_DATABASE: "let an administrator run CREATE DATABASE, and grant its user the rights",
}

# After these, a connection is of no use, although it stands.
_SPOILING = frozenset({1290, 1792, 1836})


def number_of(error: BaseException) -> int:
    """The number by which the server and the driver call an error; 0 if it has none."""
    if isinstance(error, errors.MySQLError) and error.args and isinstance(error.args[0], int):
        return error.args[0]
    return 0


def is_told(error: BaseException) -> bool:
    """Tell whether the server itself said so: it has stopped what it was asked by then."""
    number = number_of(error)
    return number > 0 and not _LEAST_OF_THE_CLIENT <= number < _ABOVE_THE_CLIENT


def meaning(error: BaseException) -> str:
    """A sentence on what went wrong, fit for a log and for users."""
    text = str(error.args[-1]) if number_of(error) else str(error)
    text = "no answer in time" if isinstance(error, TimeoutError) else text or type(error).__name__
    known = _MEANINGS.get(number_of(error))
    return f"{known} ({text})" if known else text


def spoils_connection(error: BaseException) -> bool:
    """Tell whether the next one had better not use the same connection."""
    return number_of(error) in _SPOILING


translated = translating("MySQL", ENGINE_ERRORS, meaning)
