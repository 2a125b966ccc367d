"""Drafts: timers made of what users send, new or changed, before anybody has written them.

What a body cannot say of itself is checked here: whether its time is still to come, whether the
callback can be sent, and whether a timer grows too large, part by part.
"""

from collections.abc import Mapping
from contextlib import suppress
from hashlib import blake2b
from typing import Protocol

import msgspec
from msgspec import UNSET

from duetime import ids, model
from duetime.clock import Millis
from duetime.delivery import Sender
from duetime.durations import format_duration
from duetime.errors import InvalidRequest, PayloadTooLarge
from duetime.layout import Layout
from duetime.requests import (
    USUAL_TIMEOUT,
    CallbackBody,
    CreateTimer,
    NatsCallbackBody,
    OnFailureBody,
    RetryPolicyBody,
    UpdateTimer,
    to_millis,
    to_time,
)
from duetime.retry import SINGLE_ATTEMPT, RetryPolicy
from duetime.tenancy.group import NO_DEFAULTS, Defaults
from duetime.timer import (
    DEFAULT_GROUP,
    DEFAULT_TENANT,
    DEFAULT_TIMEOUT,
    Callback,
    HttpCallback,
    NatsCallback,
    OnFailure,
    Spec,
    Timer,
)
from duetime.transitions import check

# Bytes by which a spec, as it is written, may be longer than the body that it came from.
_MARGIN = 2048


class GroupsView(Protocol):
    """What must be known of groups to make timers for them."""

    def defaults(self, tenant: str, name: str) -> Defaults:
        """What a timer of this group is given that asks for nothing else."""

    def layout(self, tenant: str, name: str) -> Layout:
        """Over how many shards its timers are spread."""


class CredentialsView(Protocol):
    """What must be known of credentials to make timers that name one."""

    def problem(self, tenant: str, group: str, callback: Callback) -> str | None:
        """Why a timer of this group cannot have a callback with this credential, or None."""


class Drafts:
    """Makes timers of bodies."""

    def __init__(
        self,
        sender: Sender,
        groups: GroupsView,
        credentials: CredentialsView,
        *,
        min_delay: Millis,
        max_timer: int,
    ) -> None:
        self._sender = sender
        self._groups = groups
        self._credentials = credentials
        self._min_delay = min_delay
        self._max_timer = max_timer

    def new(
        self, tenant: str, body: CreateTimer, now: Millis, sent_at: Millis | None = None
    ) -> Timer:
        """The timer that a body asks for, now or as it was sent earlier: then it may be late."""
        execute_at = self._execute_at(body, now if sent_at is None else min(sent_at, now))
        if execute_at is None:
            raise InvalidRequest("execute_at: required, or delay")
        layout = self._groups.layout(tenant, body.group)
        defaults = self._groups.defaults(tenant, body.group)
        callback = self._callback(body.callback, defaults)
        self._check_credential(tenant, body.group, callback)
        on_failure = defaults.on_failure
        if body.on_failure is not UNSET:
            on_failure = self._on_failure(body.on_failure)
            self._check_told(tenant, body.group, on_failure)
        id_ = layout.new_id(now, tenant, body.group, body.timer_id)
        return Timer(
            id=id_,
            tenant=tenant,
            group=body.group,
            timer_id=body.timer_id or id_,
            execute_at=execute_at,
            wake_at=max(execute_at, now),
            created_at=now,
            updated_at=now,
            spec=Spec(
                callback=callback,
                name=body.name,
                tags=_distinct(body.tags),
                metadata=UNSET if body.metadata is UNSET else body.metadata.copy(),
                correlation_id=body.correlation_id or id_,
                retry_policy=(defaults.retry_policy or SINGLE_ATTEMPT)
                if body.retry_policy is None
                else to_retry_policy(body.retry_policy),
                deadline=None if body.deadline is None else to_millis(body.deadline, "deadline"),
                retention=defaults.retention,
                response_bytes=defaults.response_bytes,
                response_headers=defaults.response_headers,
                signatures=defaults.signatures,
                on_failure=on_failure,
            ),
            fingerprint=None if body.timer_id is None else fingerprint(body),
        )

    def updated(self, timer: Timer, body: UpdateTimer, now: Millis) -> Timer:
        """The timer with what a body changes of it."""
        new = self._updated(timer, body, now)
        if body.callback is not UNSET:
            self._check_credential(timer.tenant, timer.group, new.spec.callback)
        if body.on_failure is not UNSET:
            self._check_told(timer.tenant, timer.group, new.spec.on_failure)
        return new

    def check_update(self, body: UpdateTimer, now: Millis) -> None:
        """Refuse what no timer could be updated with: it is tried on one.

        Which credential it may name depends on its group and tenant, so that is left open.
        """
        self._updated(_sample(now), body, now)

    def _updated(self, timer: Timer, body: UpdateTimer, now: Millis) -> Timer:
        # First of all: that a timer has run is the answer to an update that came too late, and not
        # that its time must be in the future.
        check("update", timer)
        execute_at = self._execute_at(body, now)
        return model.update(
            timer,
            now,
            spec=self._updated_spec(timer, body),
            execute_at=timer.execute_at if execute_at is None else execute_at,
        )

    def _updated_spec(self, timer: Timer, body: UpdateTimer) -> Spec:
        spec = timer.spec
        changes: dict[str, object] = {}
        if body.callback is not UNSET:
            defaults = self._groups.defaults(timer.tenant, timer.group)
            changes["callback"] = self._callback(body.callback, defaults)
        if body.name is not UNSET:
            changes["name"] = body.name
        if body.tags is not UNSET:
            changes["tags"] = _distinct(body.tags)
        if body.metadata is not UNSET:
            changes["metadata"] = body.metadata.copy()
        if body.retry_policy is not UNSET:
            changes["retry_policy"] = to_retry_policy(body.retry_policy)
        if body.deadline is not UNSET:
            changes["deadline"] = body.deadline and to_millis(body.deadline, "deadline")
        if body.on_failure is not UNSET:
            changes["on_failure"] = self._on_failure(body.on_failure)
        new = msgspec.structs.replace(spec, **changes) if changes else spec
        self._check_size(spec, new)
        return new

    def _on_failure(self, body: OnFailureBody | None) -> OnFailure | None:
        return None if body is None else to_on_failure(body, self._sender)

    def _check_size(self, old: Spec, new: Spec) -> None:
        """Refuse to make more of a timer, part by part, than one request could have made."""
        if new.weight <= old.weight:
            return
        if len(msgspec.json.encode(new)) > self._max_timer + _MARGIN:
            raise PayloadTooLarge(
                f"timer: must be at most {self._max_timer} bytes, with what is not changed"
            )

    def _callback(self, body: CallbackBody, defaults: Defaults) -> Callback:
        callback = to_callback(body, defaults)
        if (problem := self._sender.problem(callback)) is not None:
            raise InvalidRequest(problem)
        return callback

    def _check_credential(self, tenant: str, group: str, callback: Callback) -> None:
        if (problem := self._credentials.problem(tenant, group, callback)) is not None:
            raise InvalidRequest(problem)

    def _check_told(self, tenant: str, group: str, told: OnFailure | None) -> None:
        try:
            if told is not None:
                self._check_credential(tenant, group, told.callback)
        except InvalidRequest as error:
            raise InvalidRequest(f"on_failure.{error}") from None

    def _execute_at(self, body: CreateTimer | UpdateTimer, now: Millis) -> Millis | None:
        execute_at = None if body.execute_at is UNSET else body.execute_at
        delay = None if body.delay is UNSET else body.delay
        timezone = None if body.timezone is UNSET else body.timezone
        if execute_at is not None:
            if delay is not None:
                raise InvalidRequest("delay: cannot be given together with execute_at")
            at = to_time(execute_at, "execute_at", timezone, in_zones=True)
            if at < now + self._min_delay:
                raise InvalidRequest("execute_at must be in the future")
            return at
        if timezone is not None:
            raise InvalidRequest("timezone: goes with an execute_at that has no offset")
        if delay is None:
            return None
        wait = to_millis(delay, "delay")
        if wait < self._min_delay:
            shortest = format_duration(self._min_delay)
            raise InvalidRequest(f"delay: must be at least {shortest} on this server")
        return now + wait


def to_callback(body: CallbackBody, defaults: Defaults) -> Callback:
    """The callback as the model knows it, with what its group gives it."""
    payload = UNSET if body.payload is UNSET else body.payload.copy()
    headers = with_headers(defaults.headers, body.headers or {})
    if isinstance(body, NatsCallbackBody):
        return NatsCallback(
            topic=body.topic,
            key=body.key,
            headers=headers,
            payload=payload,
            jetstream=body.jetstream,
        )
    return HttpCallback(
        url=body.url,
        method=body.method,
        headers=headers,
        payload=payload,
        timeout=(defaults.timeout or DEFAULT_TIMEOUT)
        if body.timeout is UNSET
        else to_millis(body.timeout, "callback.timeout"),
        credential=defaults.credential if body.credential is UNSET else body.credential,
        follow_response=body.follow_response is True,
    )


def with_headers(usual: Mapping[str, str], own: dict[str, str]) -> dict[str, str]:
    """The headers of a callback beside those that are usual in its group, which they replace."""
    if not usual:
        return own
    given = {name.lower() for name in own}
    return {name: value for name, value in usual.items() if name.lower() not in given} | own


def to_on_failure(body: OnFailureBody, sender: Sender) -> OnFailure:
    """Who is told of a failure, as the model knows it; InvalidRequest if nobody could be.

    What a group gives its timers is not for them: its headers may be secrets of the receivers.
    """
    if body.callback.payload is not UNSET:
        raise InvalidRequest("on_failure.callback.payload: is the story; it cannot be given")
    try:
        callback = to_callback(body.callback, NO_DEFAULTS)
        policy = None if body.retry_policy is None else to_retry_policy(body.retry_policy)
    except InvalidRequest as error:
        raise InvalidRequest(f"on_failure.{error}") from None
    with_story = msgspec.structs.replace(callback, payload=msgspec.Raw(b"{}"))
    if (problem := sender.problem(with_story)) is not None:
        raise InvalidRequest(f"on_failure.{problem}")
    return OnFailure(callback=callback, retry_policy=policy)


def to_retry_policy(body: RetryPolicyBody) -> RetryPolicy:
    """The retry policy as the model knows it."""
    field = "retry_policy."
    return RetryPolicy(
        max_attempts=body.max_attempts,
        initial_interval=to_millis(body.initial_interval, field + "initial_interval"),
        backoff_multiplier=body.backoff_multiplier,
        max_interval=to_millis(body.max_interval, field + "max_interval"),
        max_duration=None
        if body.max_duration is None
        else to_millis(body.max_duration, field + "max_duration"),
        jitter=body.jitter,
    )


def fingerprint(body: CreateTimer) -> str:
    """A digest of what was asked for, to tell a repeated request from another one.

    The correlation id is left out: a client that tries again may well be given a new one.
    """
    written = msgspec.json.encode(
        msgspec.structs.replace(body, correlation_id=None, callback=_spelled_out(body.callback))
    )
    with suppress(msgspec.ValidationError):  # a number beyond any range is compared as written
        written = msgspec.json.encode(msgspec.json.decode(written), order="sorted")
    return blake2b(written, digest_size=16).hexdigest()


def _spelled_out(callback: CallbackBody) -> CallbackBody:
    """A callback in which nothing is left to its group: as it was before there were groups."""
    if isinstance(callback, NatsCallbackBody):
        return callback
    if callback.follow_response is False:  # as if it had not been said
        callback = msgspec.structs.replace(callback, follow_response=UNSET)
    if callback.timeout is not UNSET:
        return callback
    return msgspec.structs.replace(callback, timeout=USUAL_TIMEOUT)


def _sample(now: Millis) -> Timer:
    """A timer that can be updated."""
    id_ = ids.new_id(now, 0)
    return Timer(
        id=id_,
        tenant=DEFAULT_TENANT,
        group=DEFAULT_GROUP,
        timer_id=id_,
        execute_at=now,
        wake_at=now,
        created_at=now,
        updated_at=now,
        spec=Spec(callback=HttpCallback(url="https://example.com/"), correlation_id=id_),
    )


def _distinct(tags: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(tags))
