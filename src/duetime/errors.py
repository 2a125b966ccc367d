"""Every error that Duetime raises on purpose.

    DuetimeError
    ├── InvalidRequest            what was asked is wrong; the message names the field
    │   └── IllegalTransition     the timer's status does not allow it
    ├── NotFound                  there is no such thing
    ├── Conflict                  something else stands in its way: the key is another timer's
    ├── PreconditionFailed        If-Match names a version that is no longer the newest
    ├── PayloadTooLarge           the request body is over its limit
    ├── Unauthorized              no API key, or a wrong one
    ├── Forbidden                 the key is not good for that, or a quota forbids it for good
    ├── TooManyRequests           a quota is used up for now; it says when to come back
    ├── ConfigurationError        a setting is missing or wrong; the message says what to set
    ├── InUse                     somebody works with the database that must not meanwhile
    ├── CallerGone                the caller hung up: nobody waits for an answer
    ├── NatsError                 NATS could not do what was asked
    │   ├── NatsUnavailable       there is no connection, it was lost, or the answer took too long
    │   ├── NoResponders          nobody listens on that subject
    │   ├── NotPermitted          NATS does not let us publish on that subject
    │   ├── MessageTooLarge       the server takes no messages of that size
    │   └── JetStreamError        JetStream refused; it says why, and by which code
    └── StoreError                the store could not do what was asked
        ├── StoreUnavailable      it did not answer: a write may or may not have landed
        │   └── Unanswered        it still may: the write is under way
        ├── Unavailable           nothing was written; the same call may succeed later
        └── UnsupportedQuery      this engine cannot answer that filter

Losing a race is not an error: a store answers ``False`` and its caller looks again.
"""

import asyncio


def not_known(why: str) -> str:
    """What to say of a change of which nobody knows whether it was made."""
    return (
        f"database error: {why}; it is not known whether the change was made: "
        "look at the timer before repeating it"
    )


# What those hear of a failing store who do not run it, unless the error says otherwise.
_NOT_TOLD = (
    "database error; if this was a change, it is not known whether it was made: look before "
    "repeating it"
)


def gravest(failures: "list[StoreUnavailable]") -> "StoreUnavailable":
    """Which of several failures to tell of: one after which a write may still land, if any."""
    return next((each for each in failures if isinstance(each, Unanswered)), failures[0])


class DuetimeError(Exception):
    """Base class of every error that Duetime raises on purpose."""


class InvalidRequest(DuetimeError):
    """What was asked is wrong; the message names the field."""


class IllegalTransition(InvalidRequest):
    """The timer's status does not allow what was asked."""

    def __init__(self, action: str, status: str) -> None:
        super().__init__(f"cannot {action} timer with status '{status}'")
        self.action = action
        self.status = status


class NotFound(DuetimeError):
    """There is no such thing, or it is another tenant's."""


class Conflict(DuetimeError):
    """Something else stands in its way: the key is taken by a timer with other content."""


class PreconditionFailed(DuetimeError):
    """The version that the caller named is no longer the newest."""


class PayloadTooLarge(DuetimeError):
    """The request body is over its limit."""


class Unauthorized(DuetimeError):
    """No API key, or a wrong one."""


class Forbidden(DuetimeError):
    """The key is not good for that, or a quota forbids it, now and later."""


class TooManyRequests(DuetimeError):
    """A quota is used up for now."""

    def __init__(self, message: str, retry_after: float, *, hold_for: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after  # seconds
        self.hold_for = hold_for  # seconds that the answer is kept back: they ask far too often


class ConfigurationError(DuetimeError):
    """A setting is missing or wrong; the message says what to set."""


class InUse(DuetimeError):
    """Somebody works with the database that must not meanwhile; the message says who."""


class CallerGone(DuetimeError):
    """The caller hung up: nobody waits for an answer."""


class NatsError(DuetimeError):
    """NATS could not do what was asked."""


class NatsUnavailable(NatsError):
    """There is no connection to NATS, it was lost, or the answer took too long."""


class NoResponders(NatsError):
    """Nobody listens on that subject."""


class NotPermitted(NatsError):
    """NATS does not let its user publish on that subject."""


class MessageTooLarge(NatsError):
    """The server takes no messages of that size."""


class JetStreamError(NatsError):
    """JetStream refused what was asked: its own code and words."""

    def __init__(self, code: int, description: str) -> None:
        super().__init__(description)
        self.code = code  # JetStream's err_code, such as 10059: there is no such stream


class StoreError(DuetimeError):
    """The store could not do what was asked."""

    def __init__(self, message: str, *, told: str | None = None) -> None:
        super().__init__(message)
        self.told = message if told is None else told  # for those who do not run the service


class StoreUnavailable(StoreError):
    """The store did not answer: a write may or may not have landed, so re-read before retrying.

    Its message is mostly the driver's, which may name addresses and users of the database.
    """

    def __init__(self, message: str, *, told: str = _NOT_TOLD) -> None:
        super().__init__(message, told=told)


class Unanswered(StoreUnavailable):
    """A write has not answered in time and may still land: a re-read proves nothing."""

    def __init__(
        self, message: str, *, told: str = _NOT_TOLD, ended: asyncio.Future[None] | None = None
    ) -> None:
        super().__init__(message, told=told)
        self.ended = ended  # done when it is over, whatever came of it; None: nobody will know


class Unavailable(StoreError):
    """Nothing was written; the same call may succeed later."""


class UnsupportedQuery(StoreError):
    """This engine cannot answer that filter."""
