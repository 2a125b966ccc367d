"""The commands about targets: list, show, pause, resume, limit, forget."""

import argparse
import sys
from http import HTTPStatus
from typing import Any

from duetime.cli.arguments import duration, given
from duetime.cli.calling import add_calling_command
from duetime.cli.cells import rows
from duetime.cli.commands import Commands, add_noun
from duetime.cli.exits import HELP as EXITS
from duetime.cli.exits import Exit
from duetime.cli.output import Screen, printable
from duetime.cli.show_targets import show_target, show_targets
from duetime.client import Client
from duetime.client.calls import Call
from duetime.client.target_calls import pause_target, resume_target
from duetime.client.target_types import Target
from duetime.client.tenancy_types import Limits
from duetime.clock import SystemClock
from duetime.errors import ConfigurationError

_NONE = "none"

_NAMES = """
TARGET is a host with its port, such as api.example.com:8443; without a port it is 443."""


def add_to(commands: Commands) -> None:
    verbs = add_noun(
        commands,
        "target",
        "Look at receivers of callbacks, pause, resume and limit them",
        "duetime target list",
        EXITS,
    )
    add_calling_command(
        verbs,
        "list",
        _list,
        "List the targets that there is something to tell of",
        "  duetime target list",
    )
    add_calling_command(
        verbs,
        "show",
        _show,
        "Show one target",
        f"  duetime target show api.example.com\n{_NAMES}",
        _add_name,
    )
    add_calling_command(
        verbs,
        "pause",
        _pause,
        "Send nothing to a target, until some time or until it is resumed",
        f"""\
  duetime target pause api.example.com --for 30m --reason 'they are upgrading'
  duetime target pause api.example.com --until 2030-01-01T06:00:00Z
  duetime target pause api.example.com:8443 && echo 'nothing is sent to it any more'

Its timers wait meanwhile, and use no attempts. It waits until every node obeys, and ends with 1 if
not all have confirmed it in time: then some may still send. The same command again waits on.
{_NAMES}""",
        _add_name,
        _add_pause,
    )
    add_calling_command(
        verbs,
        "resume",
        _resume,
        "Send to a target again that is paused, or keeps failing",
        f"  duetime target resume api.example.com\n{_NAMES}",
        _add_name,
    )
    add_calling_command(
        verbs,
        "limit",
        _limit,
        "Limit how many callbacks a target gets",
        f"""\
  duetime target limit api.example.com --per-second 50 --burst 100
  duetime target limit api.example.com --concurrency 10 --per-second none

What is not named stays as it is.
{_NAMES}""",
        _add_name,
        _add_limits,
    )
    add_calling_command(
        verbs,
        "forget",
        _forget,
        "Forget the limits of a target, and that it is paused",
        f"  duetime target forget api.example.com\n{_NAMES}",
        _add_name,
    )


def _add_name(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", type=_target, metavar="TARGET", help="its host and port")


def _target(text: str) -> str:
    """What somebody calls a target; a URL could not be part of a path."""
    if "/" in text:
        raise argparse.ArgumentTypeError(
            f"must be a host and port, such as api.example.com:443, and no URL: {text!r}"
        )
    return text


def _add_pause(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--until", metavar="TIME", help="until this time, as in RFC 3339")
    parser.add_argument(
        "--for", dest="for_", type=duration, metavar="DURATION", help="for so long from now"
    )
    parser.add_argument("--reason", metavar="TEXT", help="why, for people")


def _add_limits(parser: argparse.ArgumentParser) -> None:
    many = f"or {_NONE} for no limit"
    parser.add_argument(
        "--concurrency", type=_count, metavar="N", help=f"callbacks under way at once, {many}"
    )
    parser.add_argument(
        "--per-second", type=_rate, metavar="N", help=f"callbacks begun in a second, {many}"
    )
    parser.add_argument(
        "--burst",
        type=_count,
        metavar="N",
        help=f"callbacks begun at once after a rest, or {_NONE}: as many as in a second",
    )


def _list(args: argparse.Namespace, client: Client, screen: Screen) -> int:
    answer = client.targets()
    if args.json:
        screen.json(answer)
    else:
        show_targets(screen, rows(answer, "targets"), SystemClock().now())
    return Exit.OK


def _show(args: argparse.Namespace, client: Client, screen: Screen) -> int:
    return _shown(args, screen, client.get_target(args.name))


def _pause(args: argparse.Namespace, client: Client, screen: Screen) -> int:
    if args.until is not None and args.for_ is not None:
        raise ConfigurationError("say --until or --for, not both")
    call = pause_target(args.name, until=args.until, for_=args.for_, reason=args.reason)
    return _obeyed(args, client, screen, call)


def _resume(args: argparse.Namespace, client: Client, screen: Screen) -> int:
    return _obeyed(args, client, screen, resume_target(args.name))


def _limit(args: argparse.Namespace, client: Client, screen: Screen) -> int:
    changes = given(args, *Limits.__annotations__)
    if not changes:
        raise ConfigurationError("name what to limit, such as --per-second; --help lists it all")
    limits: Limits = {}
    for name, value in changes.items():
        limits[name] = None if value == _NONE else value  # type: ignore[literal-required]
    return _shown(args, screen, client.put_target(args.name, limits=limits))


def _forget(args: argparse.Namespace, client: Client, screen: Screen) -> int:
    answer = client.forget_target(args.name)
    if args.json:
        screen.json(answer)
    else:
        screen.line(f"Forgot what was said of the target {printable(args.name)}.")
    return Exit.OK


def _obeyed(args: argparse.Namespace, client: Client, screen: Screen, call: Call[Target]) -> int:
    answer = client.exchange(call)
    _shown(args, screen, answer.data)
    if answer.status != HTTPStatus.ACCEPTED:
        return Exit.OK
    print(f"duetime: {printable(answer.message)}", file=sys.stderr)
    print("The same command again waits for them.", file=sys.stderr)
    return Exit.FAILED


def _shown(args: argparse.Namespace, screen: Screen, target: Any) -> int:
    if args.json:
        screen.json(target)
    else:
        show_target(screen, target, SystemClock().now())
    return Exit.OK


def _count(text: str) -> float | str:
    return _number(text, int)


def _rate(text: str) -> float | str:
    return _number(text, float)


def _number(text: str, type_: type[int] | type[float]) -> float | str:
    if text == _NONE:
        return text
    try:
        return type_(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number or {_NONE}, not {text!r}") from None
