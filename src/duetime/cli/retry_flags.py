"""The flags of a retry policy: of a timer, or of all timers of a group."""

import argparse
from typing import cast

from duetime.cli.arguments import duration, given
from duetime.client.types import RetryPolicy


def add_flags(retry: argparse._ArgumentGroup) -> None:
    retry.add_argument("--max-attempts", type=int, metavar="N", help="(default: 1)")
    for flag, meaning in (
        ("--initial-interval", "before the second attempt (default: 1s)"),
        ("--max-interval", "the longest between two attempts (default: 1h)"),
        ("--max-duration", "no attempt starts later than this after the first"),
    ):
        retry.add_argument(flag, type=duration, metavar="DURATION", help=meaning)
    retry.add_argument(
        "--backoff-multiplier", type=float, metavar="X", help="of each interval (default: 2)"
    )
    retry.add_argument(
        "--jitter", type=float, metavar="SHARE", help="0 to 1 of each interval (default: 0.1)"
    )


def policy_from(args: argparse.Namespace) -> RetryPolicy:
    """The policy that was given, and nothing else; the service has the defaults."""
    return cast("RetryPolicy", given(args, *RetryPolicy.__annotations__))
