"""What users send: the bodies of requests, and how what is in them is read and checked.

These types are the one source of what is accepted: they decode the requests, their constraints
make the error messages, and the API's description is generated from them. Every message names
the field that is wrong.
"""

import re
from typing import Annotated, TypeAlias
from zoneinfo import ZoneInfo

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from duetime.clock import LATEST, Millis, from_datetime, read_rfc3339
from duetime.durations import format_duration, parse_duration
from duetime.errors import InvalidRequest
from duetime.timer import DEFAULT_GROUP, DEFAULT_TIMEOUT

MOST_TAGS = 32
# Bytes of one timer, whatever settings say. No store takes less: see tests/stores/test_largest.py.
LARGEST_BODY = 8 * 1024 * 1024
# For how long finished timers are kept at least: who asks what became of one must have a chance.
SHORTEST_RETENTION: Millis = 1000

# Printable text: control characters break logs, headers, and the text columns of some engines.
# A bare $ would let a line feed pass at the end, in Python though not in JSON Schema.
_END = r"$(?!\n)"
_CONTROL = r"\x00-\x1f\x7f-\x9f"
GROUP_NAME = r"^[A-Za-z0-9_-]+" + _END
PRINTABLE = rf"^[^{_CONTROL}]*" + _END
TIMER_KEY = r"^(?!\.\.?$)" + PRINTABLE[1:]  # "." and ".." vanish from paths
_GROUP_NAME = re.compile(GROUP_NAME)
_NOT_PRINTABLE = re.compile(f"[{_CONTROL}]")

LONGEST_TEXT = 255
LONGEST_GROUP = 128
LONGEST_CREDENTIAL = 128

USUAL_TIMEOUT = format_duration(DEFAULT_TIMEOUT)  # as users write it

Text: TypeAlias = Annotated[str, Meta(min_length=1, max_length=LONGEST_TEXT, pattern=PRINTABLE)]
GroupName: TypeAlias = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=LONGEST_GROUP,
        pattern=GROUP_NAME,
        description="Letters, digits, `_` and `-`.",
        examples=["billing"],
    ),
]
Tag: TypeAlias = Annotated[str, Meta(min_length=1, max_length=128, pattern=PRINTABLE)]
Duration: TypeAlias = Annotated[
    str,
    Meta(
        max_length=64,
        description='A duration: `"250ms"`, `"10s"`, `"15m"`, `"3d"`, `"1h30m"` or ISO 8601.',
        examples=["10s", "PT15M"],
    ),
]
Time: TypeAlias = Annotated[
    str,
    Meta(
        max_length=64,
        description="A time as in RFC 3339, with its offset.",
        examples=["2030-01-01T09:00:00Z"],
    ),
]
Headers: TypeAlias = Annotated[
    dict[str, str],
    Meta(
        description="Headers to send with the callback.",
        examples=[{"Authorization": "Bearer token123"}],
    ),
]
Json: TypeAlias = Annotated[Raw, Meta(description="Any JSON value.")]
TimerKey: TypeAlias = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=LONGEST_TEXT,
        pattern=TIMER_KEY,
        description="Your own key for the timer, unique in its group.",
        examples=["user-reminder-123"],
    ),
]


class Body(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A request body; a field that is not known is an error."""


class HttpCallbackBody(Body, tag="http"):
    """An HTTP request to make when the timer is due."""

    url: Annotated[
        str,
        Meta(
            max_length=2048,
            description="Where to send it: an http or https URL.",
            examples=["https://api.example.com/webhook"],
        ),
    ]
    method: Annotated[
        str,
        Meta(max_length=16, description="The HTTP method.", examples=["POST"]),
    ] = "POST"
    headers: Headers | None = None
    payload: Json | UnsetType = UNSET
    timeout: (
        Annotated[
            Duration,
            Meta(description=f"Unless its group says otherwise, `{USUAL_TIMEOUT}`."),
        ]
        | UnsetType
    ) = UNSET
    credential: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=LONGEST_CREDENTIAL,
                pattern=GROUP_NAME,
                description="The credential to send it with, by its name; null: none, also if its "
                "group says otherwise.",
                examples=["bank"],
            ),
        ]
        | UnsetType
        | None
    ) = UNSET
    follow_response: (
        Annotated[
            bool,
            Meta(
                description='Whether the receiver decides: a 2xx answer `{"ok": false}` is a '
                "failed attempt, and with `next_execute_at` or `delay` it is called again then."
            ),
        ]
        | UnsetType
    ) = UNSET


class NatsCallbackBody(Body, tag="nats"):
    """A NATS message to publish when the timer is due."""

    topic: Annotated[str, Meta(min_length=1, max_length=255, examples=["events.timer.triggered"])]
    key: Annotated[str, Meta(min_length=1, max_length=255)] | None = None
    headers: Headers | None = None
    payload: Json | UnsetType = UNSET
    jetstream: bool = False


CallbackBody: TypeAlias = HttpCallbackBody | NatsCallbackBody


class RetryPolicyBody(Body):
    """When a failed attempt is tried again."""

    max_attempts: Annotated[int, Meta(ge=1, le=1000)] = 1
    initial_interval: Duration = "1s"
    backoff_multiplier: Annotated[float, Meta(ge=1, le=100)] = 2.0
    max_interval: Duration = "1h"
    max_duration: Duration | None = None
    jitter: Annotated[float, Meta(ge=0, le=1)] = 0.1


class OnFailureBody(Body):
    """Who is told when a timer has failed for good."""

    callback: Annotated[
        CallbackBody,
        Meta(description="As that of a timer, without a payload: that is the story."),
    ]
    retry_policy: RetryPolicyBody | None = None


_OnFailure: TypeAlias = Annotated[
    OnFailureBody,
    Meta(description="Another callback, that gets the story when the timer has failed for good."),
]


class CreateTimer(Body):
    """A timer to create: when, and what to do then."""

    callback: CallbackBody
    execute_at: Time | None = None
    delay: Duration | None = None
    timezone: (
        Annotated[
            str,
            Meta(
                max_length=64,
                description="The time zone of an `execute_at` that has no offset.",
                examples=["Europe/Berlin"],
            ),
        ]
        | None
    ) = None
    group: GroupName = DEFAULT_GROUP
    timer_id: TimerKey | None = None
    name: Text | None = None
    tags: Annotated[list[Tag], Meta(max_length=MOST_TAGS)] = []
    metadata: Json | UnsetType = UNSET
    correlation_id: Text | None = None
    retry_policy: RetryPolicyBody | None = None
    deadline: Duration | None = None
    on_failure: _OnFailure | UnsetType | None = UNSET


class UpdateTimer(Body):
    """What to change of a timer; what is not named stays as it is."""

    execute_at: Time | UnsetType = UNSET
    delay: Duration | UnsetType = UNSET
    timezone: Annotated[str, Meta(max_length=64)] | UnsetType = UNSET
    callback: CallbackBody | UnsetType = UNSET
    name: Text | UnsetType | None = UNSET
    tags: Annotated[list[Tag], Meta(max_length=MOST_TAGS)] | UnsetType = UNSET
    metadata: Json | UnsetType = UNSET
    retry_policy: RetryPolicyBody | UnsetType = UNSET
    deadline: Duration | UnsetType | None = UNSET
    on_failure: _OnFailure | UnsetType | None = UNSET


class Batch(Body):
    """Many timers to create, each as in `POST /timers`."""

    timers: Annotated[list[Raw], Meta(min_length=1, max_length=10_000)]


# Reading and checking what is in them ---------------------------------------------------------


def to_millis(duration: str, field: str) -> Millis:
    """Read a duration, or say which field has none."""
    try:
        return parse_duration(duration)
    except ValueError as error:
        raise InvalidRequest(f"{field}: {error}") from None


def to_time(
    text: str, field: str, timezone: str | None = None, *, in_zones: bool = False
) -> Millis:
    """Read a time, or say which field has none; ``in_zones``: a timezone can go with it."""
    try:
        at = read_rfc3339(text)
    except ValueError as error:
        raise InvalidRequest(f"{field}: {error}") from None
    if at.tzinfo is not None:
        if timezone is not None:
            raise InvalidRequest(f"timezone: {field} has an offset already")
    elif timezone is None:
        or_else = ", or a timezone" if in_zones else ""
        raise InvalidRequest(f'{field}: needs an offset such as "Z"{or_else}')
    else:
        at = at.replace(tzinfo=_zone(timezone))
    try:
        millis = from_datetime(at)
    except OverflowError:
        raise InvalidRequest(f"{field}: out of range") from None
    if millis > LATEST:  # its last fraction of a second was rounded up into the next year
        raise InvalidRequest(f"{field}: out of range")
    return millis


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise InvalidRequest(f"timezone: '{name}' is not a known time zone") from None


def check_text(text: str, field: str, longest: int = LONGEST_TEXT) -> None:
    """Refuse a text that came from a header or a path and that a body could not have had."""
    if not 1 <= len(text) <= longest:
        raise InvalidRequest(f"{field}: must have a length from 1 to {longest}")
    if _NOT_PRINTABLE.search(text):
        raise InvalidRequest(f"{field}: has a character that is not allowed here")


def check_group(text: str, field: str) -> None:
    """Refuse the name of a group that came from a path and that a body could not have had."""
    if len(text) > LONGEST_GROUP or not _GROUP_NAME.fullmatch(text):
        raise InvalidRequest(f"{field}: must be up to {LONGEST_GROUP} letters, digits, '_' and '-'")


def check_key(text: str, field: str) -> None:
    """Refuse a key that came from a header or a path and that a body could not have had."""
    check_text(text, field)
    if text in {".", ".."}:
        raise InvalidRequest(f"{field}: must not be '.' or '..', which vanish from paths")
