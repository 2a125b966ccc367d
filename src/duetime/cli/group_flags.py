"""The flags that describe a group, and the change that they ask for."""

import argparse
from typing import Any, get_args

from duetime.cli import quota_flags, retry_flags
from duetime.cli.arguments import duration, given, header, json_text, told
from duetime.client.tenancy_types import OnResume
from duetime.client.types import Signature

UNSET = (
    "title",
    "retry_policy",
    "timeout",
    "headers",
    "retention",
    "response_bytes",
    "response_headers",
    "response_schema",
    "signatures",
    "credential",
    "on_failure",
    "quotas",
    "limits",
    "on_resume",
)


def add_name(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="GROUP", help="the group's name")


def add_content(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--title", metavar="TEXT", help="what people call it")
    parser.add_argument(
        "--num-shards",
        type=int,
        metavar="N",
        help="over how many shards its timers are spread; fixed once the group is there",
    )
    parser.add_argument(
        "--on-resume",
        choices=get_args(OnResume),
        help="which of the timers that fell due while it was paused are fired when it goes on; the "
        "others are canceled (default: all)",
    )
    parser.add_argument(
        "--response-schema",
        type=json_text,
        metavar="JSON",
        help="a JSON Schema that 2xx answers must match, as JSON, @file or -; it counts at once",
    )
    quota_flags.add_flags(parser)
    defaults = parser.add_argument_group("what its timers get when they are created")
    defaults.add_argument("--timeout", type=duration, metavar="DURATION", help="for one attempt")
    defaults.add_argument(
        "--header",
        dest="headers",
        action="append",
        type=header,
        metavar="'NAME: VALUE'",
        help="a header of the callbacks; may be repeated, and replaces all that were there",
    )
    defaults.add_argument(
        "--retention", type=duration, metavar="DURATION", help="how long finished timers are kept"
    )
    defaults.add_argument(
        "--response-bytes", type=int, metavar="N", help="how much of each answer is kept"
    )
    defaults.add_argument(
        "--response-header",
        dest="response_headers",
        action="append",
        metavar="NAME",
        help="a header of each answer that is kept; may be repeated, and replaces all that were "
        "there",
    )
    defaults.add_argument(
        "--signature",
        dest="signatures",
        action="append",
        choices=get_args(Signature),
        help="which signatures callbacks carry; may be repeated",
    )
    defaults.add_argument(
        "--credential", metavar="NAME", help="the credential that callbacks are sent with"
    )
    defaults.add_argument(
        "--on-failure",
        type=told,
        metavar="URL",
        help="who gets the story when one has failed for good; or JSON, or @file",
    )
    retry = parser.add_argument_group("their retry policy, which is replaced as a whole")
    retry_flags.add_flags(retry)


def change_from(args: argparse.Namespace) -> dict[str, Any]:
    """What was given, and nothing else."""
    names = ("title", "num_shards", "on_resume", "timeout", "retention", "response_bytes")
    more = ("response_headers", "response_schema", "signatures", "credential", "on_failure")
    change = given(args, *names, *more)
    if args.headers is not None:
        change["headers"] = dict(args.headers)
    if retry := retry_flags.policy_from(args):
        change["retry_policy"] = retry
    return change | quota_flags.most_from(args)
