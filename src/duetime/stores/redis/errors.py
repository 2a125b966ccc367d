"""What the driver throws, in words that say what to do."""

from redis.exceptions import (
    AuthenticationError,
    AuthenticationWrongNumberOfArgsError,
    BusyLoadingError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)

from duetime.stores.translation import translating

# All that can come out of a question: the driver's own, and what the system and a time limit throw.
FAILURES = (RedisError, OSError, TimeoutError, EOFError, OverflowError, UnicodeError)

_MEANINGS: tuple[tuple[type[Exception] | tuple[type[Exception], ...], str], ...] = (
    (
        (AuthenticationError, AuthenticationWrongNumberOfArgsError),
        "the user or the password of DATABASE_URL is wrong",
    ),
    (NoPermissionError, "the user of DATABASE_URL may not do that: {error}"),
    (BusyLoadingError, "it is still reading its file after a start: try again"),
    (ReadOnlyError, "this server is a replica: DATABASE_URL must name the one that writes"),
    (OutOfMemoryError, "it has no memory left: raise its maxmemory"),
    (TimeoutError, "no answer in time"),
)


def meaning(error: Exception) -> str:
    """What an error of the driver's means to a person."""
    text = str(error)
    if isinstance(error, AuthenticationError) and "required" in text:
        return "it wants a password, and DATABASE_URL has none"
    for kinds, words in _MEANINGS:
        if isinstance(error, kinds):
            return words.format(error=text)
    return text or type(error).__name__


translated = translating("Redis", FAILURES, meaning)


def is_answer(error: BaseException) -> bool:
    """Tell whether the server itself said so: then what it was asked for is over."""
    return isinstance(error, ResponseError | BusyLoadingError)
