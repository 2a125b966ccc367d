"""The flags of the commands about timers: which timer, which of them, and how often to look."""

import argparse
from typing import cast

from duetime.cli.arguments import duration
from duetime.client.types import Filters
from duetime.model import DEFAULT_GROUP, Status


def add_which(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("timer", nargs="?", metavar="ID", help="the timer's id")
    parser.add_argument("--id", dest="timer_id", metavar="KEY", help="your own key, instead of ID")
    parser.add_argument("--group", default=DEFAULT_GROUP, help="the key's group")
    parser.set_defaults(parser=parser)


def add_filters(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("which, and in which order")
    group.add_argument("--status", choices=[status.value for status in Status])
    for flag in ("--group", "--tag", "--name-prefix", "--correlation-id"):
        group.add_argument(flag)
    for flag in ("--created-after", "--created-before", "--execute-after", "--execute-before"):
        group.add_argument(flag, metavar="TIME")
    group.add_argument("--limit", type=int, metavar="N", help="per page, at most 200 (default: 50)")
    group.add_argument("--offset", type=int, metavar="N")
    group.add_argument("--sort", choices=("created_at", "execute_at"))
    group.add_argument("--order", choices=("asc", "desc"))


def add_paging(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cursor", help="go on behind a page (its next_cursor)")
    parser.add_argument("--all", action="store_true", help="all of them, page by page")


def add_pace(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("timer", nargs="?", metavar="ID", help="the timer's id")
    parser.add_argument(
        "--interval",
        type=duration,
        default="500ms",
        metavar="DURATION",
        help="how often to look (default: 500ms)",
    )


def filters_from(args: argparse.Namespace) -> Filters:
    """The filters that were given."""
    given = {name: getattr(args, name, None) for name in Filters.__annotations__}
    return cast("Filters", {name: value for name, value in given.items() if value is not None})


def is_by_key(args: argparse.Namespace) -> bool:
    """Whether the timer is named by its key; it must be named in exactly one way."""
    if (args.timer is None) == (args.timer_id is None):
        args.parser.error("name the timer by its ID, or by --id KEY and --group")
    return args.timer is None
