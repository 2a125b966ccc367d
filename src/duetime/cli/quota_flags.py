"""The flags of quotas, of a tenant or a group, and those that take something back."""

import argparse
from collections.abc import Sequence
from typing import Any

from duetime.client.tenancy_types import Quotas
from duetime.errors import ConfigurationError

_NAMES = tuple(Quotas.__annotations__)
_NONE = "none"


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--quota",
        dest="quotas",
        action="append",
        type=_quota,
        metavar="NAME=N",
        help=f"the most of something, or {_NONE} for no limit; may be repeated. "
        f"Names: {', '.join(_NAMES)}",
    )


def add_unset(parser: argparse.ArgumentParser, names: Sequence[str]) -> None:
    """A flag for what is to be nothing again, which no value could say."""
    parser.add_argument(
        "--unset",
        action="append",
        default=[],
        choices=names,
        help="take it back to what it is when nothing is said; may be repeated",
    )


def take_back(args: argparse.Namespace, change: dict[str, Any]) -> None:
    """Put what is to be unset into a change; nothing can be set and unset at once."""
    for name in args.unset:
        if name in change:
            raise ConfigurationError(f"--unset {name}: it is also set; do one of the two")
        change[name] = None


def _quota(text: str) -> tuple[str, float | int | None]:
    name, equals, value = text.partition("=")
    name = name.replace("-", "_")
    if not equals or name not in _NAMES:
        raise argparse.ArgumentTypeError(f"must be one of {', '.join(_NAMES)}, = and a number")
    if value == _NONE:
        return name, None
    try:
        return name, (float if name == "creates_per_second" else int)(value)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{name} must be a number or {_NONE}") from None
