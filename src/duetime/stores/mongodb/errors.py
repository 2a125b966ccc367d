"""What MongoDB, its driver and the network throw, as the contract wants it."""

from bson.errors import BSONError
from pymongo.errors import (
    BulkWriteError,
    ConfigurationError,
    OperationFailure,
    PyMongoError,
    ServerSelectionTimeoutError,
    WaitQueueTimeoutError,
)

from duetime.stores.translation import translating

ENGINE_ERRORS = (PyMongoError, BSONError, OSError, TimeoutError, EOFError, OverflowError)

DUPLICATE_KEY = 11000

# What the most frequent ones mean, in words that say what to do. By the server's code.
_MEANINGS = {
    13: "this user of the database may not do that",
    18: "the user or the password is wrong",
    50: "it took too long and was given up",
    64: "too few members of the replica set have it yet",
    112: "two writes met",
    189: "its primary has stepped down",
    10107: "this member takes no writes: it is no primary",
    11600: "it is shutting down",
    14031: "its disk is full",
}


def meaning(error: BaseException) -> str:
    """A sentence on what went wrong, fit for a log and for users."""
    if isinstance(error, BulkWriteError):
        return _of_many(error)
    if isinstance(error, ServerSelectionTimeoutError):
        # The driver's own text is a page, with the state of each member.
        return f"no primary could be reached ({_first_line(error)})"
    if isinstance(error, WaitQueueTimeoutError):
        return "no connection was free in time: raise pool_size, or look for what keeps it busy"
    code = error.code if isinstance(error, OperationFailure) else None
    if known := _MEANINGS.get(code or 0):
        return f"{known} ({_first_line(error)})"
    if getattr(error, "timeout", False) or isinstance(error, TimeoutError):
        return "no answer in time"
    return _first_line(error)


def losers(error: BulkWriteError, code: int) -> set[int]:
    """The places in a batch of those that were refused for this, if that is all that went wrong."""
    failures = error.details["writeErrors"]
    if error.details["writeConcernErrors"] or any(each["code"] != code for each in failures):
        raise error
    return {each["index"] for each in failures}


def was_never_sent(error: BaseException) -> bool:
    """Tell whether nothing can have reached a server.

    The driver raises this one only if no try before it got any further.
    """
    return isinstance(error, ServerSelectionTimeoutError | ConfigurationError)


def _of_many(error: BulkWriteError) -> str:
    """The first of the reasons: the driver's text would repeat the documents."""
    details = error.details
    reasons = [*details.get("writeErrors", ()), *details.get("writeConcernErrors", ())]
    if not reasons:
        return "a part of it failed"
    known = _MEANINGS.get(reasons[0].get("code", 0))
    text = str(reasons[0].get("errmsg", "")).partition("\n")[0][:200]
    return f"{known} ({text})" if known else text or "a part of it failed"


def _first_line(error: BaseException) -> str:
    text = str(error).partition(", full error")[0].partition(", Timeout:")[0]
    return text.partition("\n")[0][:300] or type(error).__name__


translated = translating("MongoDB", ENGINE_ERRORS, meaning)
