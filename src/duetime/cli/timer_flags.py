"""The flags of the commands about timers: which timer, which of them, and how often to look."""

import argparse
from typing import Any, cast

from duetime.cli.arguments import duration, metadata_pair
from duetime.client.action_types import TimerFilter
from duetime.client.types import Filters
from duetime.errors import ConfigurationError
from duetime.timer import DEFAULT_GROUP, Status


def add_which(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("timer", nargs="?", metavar="ID", help="the timer's id")
    parser.add_argument("--id", dest="timer_id", metavar="KEY", help="your own key, instead of ID")
    parser.add_argument("--group", default=DEFAULT_GROUP, help="the key's group")


def add_filters(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("which, and in which order")
    add_matching(group)
    group.add_argument("--limit", type=int, metavar="N", help="per page, at most 200 (default: 50)")
    group.add_argument("--offset", type=int, metavar="N")
    group.add_argument("--sort", choices=("created_at", "execute_at"))
    group.add_argument("--order", choices=("asc", "desc"))


def add_matching(group: argparse._ArgumentGroup) -> None:
    """What a timer must be like; it must be like all that is given."""
    group.add_argument(
        "--status",
        action="append",
        choices=[status.value for status in Status],
        help="may be repeated: one of them",
    )
    group.add_argument("--group")
    group.add_argument("--tag", action="append", help="may be repeated: all of them")
    group.add_argument(
        "--any-tag", action="append", metavar="TAG", help="may be repeated: at least one of them"
    )
    for flag in ("--name-prefix", "--name-contains"):
        group.add_argument(flag, metavar="TEXT")
    group.add_argument("--correlation-id", metavar="ID")
    for flag in ("--created-after", "--created-before", "--execute-after", "--execute-before"):
        group.add_argument(flag, metavar="TIME")
    group.add_argument(
        "--metadata",
        action="append",
        type=metadata_pair,
        metavar="PATH=VALUE",
        help="what its metadata has at a path, JSON or text; may be repeated: all of them",
    )
    group.add_argument("--last-error", metavar="TEXT", help="what its last error contains")
    group.add_argument("--outcome", metavar="KIND", help="how its last attempt ended: ok, http ...")


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
    found = {name: getattr(args, name, None) for name in Filters.__annotations__}
    found["metadata"] = _metadata(args)
    return cast("Filters", {name: value for name, value in found.items() if value is not None})


def filter_from(args: argparse.Namespace) -> TimerFilter:
    """The same for an action."""
    found = {name: getattr(args, name, None) for name in TimerFilter.__annotations__}
    found |= {"tags": args.tag, "any_tags": args.any_tag, "metadata": _metadata(args)}
    found["all"] = args.all or None
    return cast("TimerFilter", {name: value for name, value in found.items() if value is not None})


def _metadata(args: argparse.Namespace) -> dict[str, Any] | None:
    """By path; who names one twice means something else than either of the two alone."""
    pairs = getattr(args, "metadata", None)
    if pairs is None:
        return None
    for number, (path, _) in enumerate(pairs):
        if any(path == other for other, _ in pairs[:number]):
            raise ConfigurationError(f"--metadata: names {path!r} twice; give each path once")
    return dict(pairs)


def is_by_key(args: argparse.Namespace) -> bool:
    """Whether the timer is named by its key; it must be named in exactly one way."""
    if (args.timer is None) == (args.timer_id is None):
        args.parser.error("name the timer by its ID, or by --id KEY and --group")
    return args.timer is None
