"""What DynamoDB and the network throw, told apart by what they mean for a write."""

from collections.abc import Mapping
from typing import Any

from duetime.errors import StoreUnavailable


class Refused(Exception):
    """It said no: nothing was written."""

    def __init__(self, code: str, message: str, answer: Mapping[str, Any]) -> None:
        super().__init__(f"{message} ({code})" if message else code)
        self.code = code
        self.answer = answer

    @property
    def is_for_now(self) -> bool:
        """Whether the same request may pass in a moment."""
        return self.code in _BUSY or (
            self.code == CANCELED and any(code in _BUSY for code in self.reasons)
        )

    @property
    def reasons(self) -> list[str]:
        """Why a transaction was canceled, for each of its items."""
        return [reason.get("Code", "None") for reason in self.answer.get("CancellationReasons", ())]


class Lost(Exception):
    """Nobody knows what became of it, unless it never left."""

    def __init__(self, why: str, *, was_sent: bool) -> None:
        super().__init__(why)
        self.was_sent = was_sent


FAILED_CONDITION = "ConditionalCheckFailedException"
CANCELED = "TransactionCanceledException"
_BUSY = frozenset(
    {
        "ProvisionedThroughputExceededException",
        "ProvisionedThroughputExceeded",
        "RequestLimitExceeded",
        "ThrottlingException",
        "ThrottlingError",
        "TransactionConflictException",
        "TransactionConflict",
        "TransactionInProgressException",
        "LimitExceededException",
    }
)

# What the most frequent ones mean, in words that say what to do.
_MEANINGS = {
    "AccessDeniedException": "these credentials may not do that",
    "ExpiredTokenException": "the credentials have run out",
    "IncompleteSignatureException": "the credentials are not valid",
    "InvalidSignatureException": "the secret key is wrong, or this machine's clock is",
    "ItemCollectionSizeLimitExceededException": "a shard has reached 10 GB: use more shards",
    "MissingAuthenticationTokenException": "the credentials are not valid",
    "ProvisionedThroughputExceededException": "throttled: more is asked than is provisioned",
    "RequestLimitExceeded": "throttled: the account's limit is reached",
    "ResourceNotFoundException": "there is no such table",
    "ThrottlingException": "throttled: more is asked than it takes at once",
    "UnrecognizedClientException": "the access key is not known there",
}


_LONGEST = 300  # characters of what AWS says that are passed on


def unavailable(error: Refused | Lost | str) -> StoreUnavailable:
    """The error as the contract wants it, in a sentence fit for a log and for users."""
    known = _MEANINGS.get(error.code) if isinstance(error, Refused) else None
    if known and isinstance(error, Refused):
        # Not AWS's own words: those on a signature repeat the request, with the session's token.
        return StoreUnavailable(f"DynamoDB: {known} ({error.code})")
    return StoreUnavailable(f"DynamoDB: {str(error).partition(chr(10))[0][:_LONGEST]}")
