"""The command that shows what happens to timers."""

import argparse
import sys
from typing import cast

from duetime.cli.arguments import given
from duetime.cli.calling import add_calling_command
from duetime.cli.commands import Commands
from duetime.cli.exits import Exit
from duetime.cli.output import Screen, printable
from duetime.cli.show_events import event_line
from duetime.client import Client, ClientError
from duetime.client.event_types import EventFilters
from duetime.clock import SystemClock
from duetime.events.types import TYPES


def add_to(commands: Commands) -> None:
    add_calling_command(
        commands,
        "events",
        _events,
        "Show what happens to timers",
        """\
  duetime events --follow
  duetime events --follow --group billing --type failed --type attempt_failed
  duetime events --timer 0199f2a0-... --json

Without --follow, what is still kept is shown. With it, what happens from now on, until Ctrl-C: if
the service goes away meanwhile, it goes on where it was. Events are kept with OUTBOX=on.""",
        _add_flags,
    )


def _add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-f", "--follow", action="store_true", help="go on with what comes")
    parser.add_argument(
        "--after",
        metavar="POSITION",
        help="go on behind an event, by its position as --json shows it; `first` for all that is "
        "kept",
    )
    group = parser.add_argument_group("which")
    group.add_argument("--group")
    group.add_argument(
        "--type", action="append", help=f"one of {', '.join(TYPES)}; may be repeated"
    )
    group.add_argument("--timer", metavar="ID", help="of one timer")
    group.add_argument("--tag", action="append", help="of timers with all of these")


def _events(args: argparse.Namespace, client: Client, screen: Screen) -> int:
    filters = cast("EventFilters", given(args, *EventFilters.__annotations__))
    events = client.events(after=args.after, follow=args.follow, on_break=_tell_break, **filters)
    for event in events:
        if args.json:
            screen.json(event, on_one_line=True)
        else:
            screen.line(event_line(screen, event, SystemClock().now()))
    return Exit.OK


def _tell_break(error: ClientError | None) -> None:
    why = "the stream has ended" if error is None else printable(str(error))
    print(f"duetime: {why}; trying again", file=sys.stderr)
