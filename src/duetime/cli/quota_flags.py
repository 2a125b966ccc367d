"""The flags of quotas and limits, of a tenant or a group, and those that take something back."""

import argparse
from collections.abc import Sequence
from typing import Any

from duetime.client.tenancy_types import Limits, Quotas
from duetime.errors import ConfigurationError

_QUOTAS = tuple(Quotas.__annotations__)
_LIMITS = tuple(Limits.__annotations__)
_FRACTIONS = ("creates_per_second", "per_second")
_NONE = "none"


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--quota",
        dest="quotas",
        action="append",
        type=lambda text: _most(text, _QUOTAS),
        metavar="NAME=N",
        help=f"the most of something, or {_NONE} for no limit; may be repeated. "
        f"Names: {', '.join(_QUOTAS)}",
    )
    add_limits(parser)


def add_limits(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--limit",
        dest="limits",
        action="append",
        type=lambda text: _most(text, _LIMITS),
        metavar="NAME=N",
        help=f"the most callbacks in the whole cluster, or {_NONE} for no limit; may be repeated. "
        f"Names: {', '.join(_LIMITS)}",
    )


def most_from(args: argparse.Namespace) -> dict[str, Any]:
    """The quotas and limits that were given."""
    return {
        name: dict(pairs)
        for name in ("quotas", "limits")
        if (pairs := getattr(args, name)) is not None
    }


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


def _most(text: str, names: Sequence[str]) -> tuple[str, float | int | None]:
    name, equals, value = text.partition("=")
    name = name.replace("-", "_")
    if not equals or name not in names:
        raise argparse.ArgumentTypeError(f"must be one of {', '.join(names)}, = and a number")
    if value == _NONE:
        return name, None
    try:
        return name, (float if name in _FRACTIONS else int)(value)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{name} must be a number or {_NONE}") from None
