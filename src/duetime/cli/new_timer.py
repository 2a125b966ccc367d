"""The timer that the flags of `duetime timer create` describe."""

import argparse
from typing import Any, cast

from duetime.cli.arguments import duration, header, json_text
from duetime.client.types import NewTimer, RetryPolicy


def add_flags(parser: argparse.ArgumentParser) -> None:
    when = parser.add_argument_group("when").add_mutually_exclusive_group(required=True)
    when.add_argument("--in", dest="delay", type=duration, metavar="DURATION", help="10s, 15m, 3d")
    when.add_argument("--at", metavar="TIME", help="RFC 3339, e.g. 2030-01-01T09:00:00+01:00")
    what = parser.add_argument_group("what to call")
    what.add_argument("--url", required=True, help="where the callback goes")
    what.add_argument("--method", help="the HTTP method (default: POST)")
    what.add_argument(
        "--header",
        dest="headers",
        action="append",
        type=header,
        default=[],
        metavar="'NAME: VALUE'",
        help="a header of the callback; may be repeated",
    )
    what.add_argument(
        "--data",
        type=json_text,
        metavar="JSON",
        help="the body: JSON, @file, or - for standard input",
    )
    what.add_argument(
        "--timeout", type=duration, metavar="DURATION", help="for one attempt (default: 30s)"
    )
    _add_identity_flags(parser.add_argument_group("which timer it is"))
    _add_retry_flags(parser.add_argument_group("what if it fails"))


def _add_identity_flags(which: argparse._ArgumentGroup) -> None:
    which.add_argument("--group", help="its group (default: default)")
    which.add_argument(
        "--id", dest="timer_id", metavar="KEY", help="your own key for it, unique in its group"
    )
    which.add_argument("--name", help="what people call it")
    which.add_argument(
        "--tag", dest="tags", action="append", default=[], help="a tag; may be repeated"
    )
    which.add_argument(
        "--metadata", type=json_text, metavar="JSON", help="JSON, @file or -, kept with the timer"
    )
    which.add_argument("--correlation-id", metavar="ID", help="passed on with the callback")


def _add_retry_flags(retry: argparse._ArgumentGroup) -> None:
    retry.add_argument("--max-attempts", type=int, metavar="N", help="(default: 1)")
    for flag, meaning in (
        ("--initial-interval", "before the second attempt (default: 1s)"),
        ("--max-interval", "the longest between two attempts (default: 1h)"),
        ("--max-duration", "no attempt starts later than this after the first"),
        ("--deadline", "no attempt starts later than this after the due time"),
    ):
        retry.add_argument(flag, type=duration, metavar="DURATION", help=meaning)
    retry.add_argument(
        "--backoff-multiplier", type=float, metavar="X", help="of each interval (default: 2)"
    )
    retry.add_argument(
        "--jitter", type=float, metavar="SHARE", help="0 to 1 of each interval (default: 0.1)"
    )


def timer_from(args: argparse.Namespace) -> NewTimer:
    """The body of the request: what was given, and nothing else; the service has the defaults."""
    callback: dict[str, Any] = {"type": "http", "url": args.url}
    callback |= _given(args, "method", "timeout")
    if args.headers:
        callback["headers"] = dict(args.headers)
    if args.data is not None:
        callback["payload"] = args.data
    timer: dict[str, Any] = {"callback": callback}
    timer |= _given(
        args, "delay", "group", "timer_id", "name", "correlation_id", "metadata", "deadline"
    )
    if args.at is not None:
        timer["execute_at"] = args.at
    if args.tags:
        timer["tags"] = args.tags
    if retry := _given(args, *RetryPolicy.__annotations__):
        timer["retry_policy"] = retry
    return cast("NewTimer", timer)


def _given(args: argparse.Namespace, *names: str) -> dict[str, Any]:
    values = {name: getattr(args, name) for name in names}
    return {name: value for name, value in values.items() if value is not None}
