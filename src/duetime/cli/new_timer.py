"""The timer that the flags of `duetime timer create` describe."""

import argparse
from typing import Any, cast

from duetime.cli import retry_flags
from duetime.cli.arguments import duration, given, header, json_text, told
from duetime.client.types import NewTimer
from duetime.errors import ConfigurationError


def add_flags(parser: argparse.ArgumentParser) -> None:
    when = parser.add_argument_group("when").add_mutually_exclusive_group(required=True)
    when.add_argument("--in", dest="delay", type=duration, metavar="DURATION", help="10s, 15m, 3d")
    when.add_argument("--at", metavar="TIME", help="RFC 3339, e.g. 2030-01-01T09:00:00+01:00")
    what = parser.add_argument_group("what to call")
    where = what.add_mutually_exclusive_group(required=True)
    where.add_argument("--url", help="where the callback goes")
    where.add_argument("--topic", help="the NATS subject that it is published on, instead of --url")
    what.add_argument("--key", help="with --topic: what follows it in the subject, after a dot")
    what.add_argument(
        "--jetstream",
        action="store_const",
        const=True,
        help="with --topic: have a stream of JetStream acknowledge it",
    )
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
    what.add_argument(
        "--follow-response",
        action="store_const",
        const=True,
        help="let the receiver's answer say whether it is done, or when to call again",
    )
    credential = what.add_mutually_exclusive_group()
    credential.add_argument(
        "--credential", metavar="NAME", help="the credential to send it with (default: its group's)"
    )
    credential.add_argument(
        "--no-credential", action="store_true", help="send it with none, whatever its group has"
    )
    _add_identity_flags(parser.add_argument_group("which timer it is"))
    retry = parser.add_argument_group("what if it fails")
    retry_flags.add_flags(retry)
    retry.add_argument(
        "--deadline",
        type=duration,
        metavar="DURATION",
        help="no attempt starts later than this after the due time",
    )
    retry.add_argument(
        "--on-failure",
        type=told,
        metavar="URL",
        help="who gets the story when it has failed for good; or JSON, @file, or none",
    )


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


def _http_callback(args: argparse.Namespace) -> dict[str, Any]:
    _refuse(args, "--url", "key", "jetstream")
    callback: dict[str, Any] = {"type": "http", "url": args.url}
    callback |= given(args, "method", "timeout", "credential", "follow_response")
    if args.no_credential:
        callback["credential"] = None
    return callback


def _nats_callback(args: argparse.Namespace) -> dict[str, Any]:
    _refuse(args, "--topic", "method", "timeout", "credential", "follow_response")
    if args.no_credential:
        raise ConfigurationError("--no-credential: is not for --topic")
    return {"type": "nats", "topic": args.topic, **given(args, "key", "jetstream")}


def _refuse(args: argparse.Namespace, kind: str, *names: str) -> None:
    """Let nobody believe that a flag counts which means nothing for this kind of callback."""
    for name in given(args, *names):
        raise ConfigurationError(f"--{name.replace('_', '-')}: is not for {kind}")


def timer_from(args: argparse.Namespace) -> NewTimer:
    """The body of the request: what was given, and nothing else; the service has the defaults."""
    callback = _http_callback(args) if args.topic is None else _nats_callback(args)
    if args.headers:
        callback["headers"] = dict(args.headers)
    if args.data is not None:
        callback["payload"] = args.data
    timer: dict[str, Any] = {"callback": callback}
    timer |= given(
        args, "delay", "group", "timer_id", "name", "correlation_id", "metadata", "deadline"
    )
    timer |= given(args, "on_failure")
    if args.at is not None:
        timer["execute_at"] = args.at
    if args.tags:
        timer["tags"] = args.tags
    if retry := retry_flags.policy_from(args):
        timer["retry_policy"] = retry
    return cast("NewTimer", timer)
