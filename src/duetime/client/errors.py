"""What can go wrong between a client and the service.

DuetimeError
└── ClientError
├── ServiceError           the service answered, and the answer is no
└── ServiceUnreachable     there was no answer: what was asked may or may not be done
"""

from duetime.errors import DuetimeError


class ClientError(DuetimeError):
    """A call did not do what was asked."""


class ServiceError(ClientError):
    """The service refused: with an HTTP status, a code of its own, and a sentence.

    ``retry_after`` is in seconds, and None unless the service said when to try again.
    """

    def __init__(
        self, status: int, code: int, message: str, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.retry_after = retry_after


class ServiceUnreachable(ClientError):
    """There was no answer: what was asked may or may not have been done."""
