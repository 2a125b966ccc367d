"""Views of callbacks: what a timer does and how often it is tried, as the API shows it."""

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, Raw

from duetime.durations import format_duration
from duetime.retry import RetryPolicy
from duetime.timer import Callback, NatsCallback, OnFailure


class HttpCallbackView(msgspec.Struct, tag="http", kw_only=True):
    """An HTTP request that is made when the timer is due."""

    url: str
    method: str
    headers: dict[str, str]
    payload: Raw | None
    timeout: str
    credential: Annotated[
        str | None, Meta(description="The credential that it is sent with; null: none.")
    ]
    follow_response: Annotated[
        bool, Meta(description="Whether the receiver's answer says if it is done.")
    ]


class NatsCallbackView(msgspec.Struct, tag="nats", kw_only=True):
    """A NATS message that is published when the timer is due."""

    topic: str
    key: str | None
    headers: dict[str, str]
    payload: Raw | None
    jetstream: bool


class RetryPolicyView(msgspec.Struct, kw_only=True):
    """When a failed attempt is tried again."""

    max_attempts: int
    initial_interval: str
    backoff_multiplier: float
    max_interval: str
    max_duration: str | None
    jitter: float


class OnFailureView(msgspec.Struct, kw_only=True):
    """Who is told when a timer has failed for good."""

    callback: HttpCallbackView | NatsCallbackView
    retry_policy: Annotated[
        RetryPolicyView | None, Meta(description="How often that is tried; null: as usual.")
    ]


def callback_view(callback: Callback) -> HttpCallbackView | NatsCallbackView:
    """What a timer does, as it is shown."""
    payload = None if callback.payload is UNSET else callback.payload
    if isinstance(callback, NatsCallback):
        return NatsCallbackView(
            topic=callback.topic,
            key=callback.key,
            headers=callback.headers,
            payload=payload,
            jetstream=callback.jetstream,
        )
    return HttpCallbackView(
        url=callback.url,
        method=callback.method,
        headers=callback.headers,
        payload=payload,
        timeout=format_duration(callback.timeout),
        credential=callback.credential,
        follow_response=callback.follow_response,
    )


def on_failure_view(told: OnFailure | None) -> OnFailureView | None:
    """Who is told of a failure, as it is shown."""
    if told is None:
        return None
    policy = told.retry_policy
    return OnFailureView(
        callback=callback_view(told.callback),
        retry_policy=None if policy is None else policy_view(policy),
    )


def policy_view(policy: RetryPolicy) -> RetryPolicyView:
    """A retry policy as it is shown."""
    return RetryPolicyView(
        max_attempts=policy.max_attempts,
        initial_interval=format_duration(policy.initial_interval),
        backoff_multiplier=policy.backoff_multiplier,
        max_interval=format_duration(policy.max_interval),
        max_duration=None if policy.max_duration is None else format_duration(policy.max_duration),
        jitter=policy.jitter,
    )


def hidden_callback(
    callback: HttpCallbackView | NatsCallbackView,
) -> HttpCallbackView | NatsCallbackView:
    """A callback for those who may not see what it carries; that there are headers is no secret."""
    headers = dict.fromkeys(callback.headers, "***")
    return msgspec.structs.replace(callback, payload=None, headers=headers)


def hidden_on_failure(shown: OnFailureView | None) -> OnFailureView | None:
    """Who is told of a failure, likewise."""
    if shown is None:
        return None
    return msgspec.structs.replace(shown, callback=hidden_callback(shown.callback))
