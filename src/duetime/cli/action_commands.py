"""The commands about actions on many timers: start, list, get, cancel, watch."""

import argparse
import sys
from typing import Any, get_args

from duetime.cli import timer_flags
from duetime.cli.action_wait import exit_of, wait_for
from duetime.cli.arguments import duration, given, json_text, shift
from duetime.cli.asking import add_yes, check_somebody, is_wanted
from duetime.cli.calling import add_calling_command
from duetime.cli.cells import number, rows
from duetime.cli.commands import Commands, add_noun
from duetime.cli.exits import HELP as EXITS
from duetime.cli.exits import Exit
from duetime.cli.output import Screen
from duetime.cli.show_actions import show_action, show_actions
from duetime.cli.watch import seconds_of
from duetime.client import Client
from duetime.client.action_types import Action, ActionName
from duetime.clock import SystemClock
from duetime.errors import ConfigurationError

_NEEDS = {"shift": "by", "update": "update"}  # which flag belongs to which action


def add_to(commands: Commands) -> None:
    verbs = add_noun(
        commands,
        "action",
        "Do something to many timers at once, and see how far it is",
        "duetime action start cancel --group carts --dry-run",
        EXITS,
    )
    add_calling_command(
        verbs,
        "start",
        _start,
        "Do something to all timers that match, and wait until it is done",
        """\
  duetime action start cancel --group carts --status pending --dry-run
  duetime action start shift --by 1h --tag billing --execute-before 2030-01-01T00:00:00Z
  duetime action start shift --by=-30m --group mail --yes
  duetime action start update --update '{"deadline": "10m"}' --metadata customer.id=42 --yes
  duetime action start redrive --group mail --last-error 503 --dry-run
  duetime action start delete --status completed --created-before 2029-01-01T00:00:00Z --yes

On a terminal it first says how many timers match, and asks. Elsewhere it takes --yes or --dry-run.
Ctrl-C leaves the action running.""",
        _add_start,
        _add_interval,
    )
    add_calling_command(verbs, "list", _list, "List the actions", "  duetime action list")
    for verb, run, summary, more in (
        ("get", _get, "Show one action", ()),
        ("cancel", _cancel, "Stop an action; what it has changed stays changed", ()),
        ("watch", _watch, "Wait until an action has ended", (_add_interval,)),
    ):
        examples = f"  duetime action {verb} 01890a5d-ac96-774b-bcce-b302099a8057"
        add_calling_command(verbs, verb, run, summary, examples, _add_id, *more)


def _add_start(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=get_args(ActionName), help="what to do to each of them")
    parser.add_argument(
        "--by", type=shift, metavar="DURATION", help="shift: by how much, or =-DURATION for earlier"
    )
    parser.add_argument(
        "--update", type=json_text, metavar="JSON", help="update: the change; JSON, @file, or -"
    )
    parser.add_argument("--dry-run", action="store_true", help="only tell how many match")
    add_yes(parser)
    parser.add_argument("--no-wait", action="store_true", help="do not wait until it is done")
    parser.add_argument(
        "--idempotency-key",
        metavar="KEY",
        help="do it once, however often it is asked for with this key",
    )
    which = parser.add_argument_group("which timers: those that are like all of this")
    which.add_argument("--all", action="store_true", help="all that there are")
    timer_flags.add_matching(which)


def _add_id(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="the action's id")


def _add_interval(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--interval",
        type=duration,
        default="500ms",
        metavar="DURATION",
        help="how often to look (default: 500ms)",
    )


def _start(args: argparse.Namespace, client: Client, screen: Screen) -> int:
    request = _request(args)
    if not (args.dry_run or args.yes):
        check_somebody(instead=", or --dry-run to see how many match")
        counted = wait_for(
            client, client.start_action(**request, dry_run=True), seconds_of(args.interval)
        )
        if exit_of(counted) is not Exit.OK:
            return _show(args, screen, counted, Exit.FAILED)
        if not counted.get("matched"):
            print("No timers match: there is nothing to do.", file=sys.stderr)
            return Exit.OK
        if not is_wanted(_question(args.action, counted["matched"])):
            return Exit.FAILED
    # Only here: what was counted before it was other content, which the same key may not have.
    action = client.start_action(
        **request, dry_run=args.dry_run, idempotency_key=args.idempotency_key
    )
    if args.no_wait:
        return _show(args, screen, action, Exit.OK)
    action = wait_for(client, action, seconds_of(args.interval))
    return _show(args, screen, action, exit_of(action))


def _request(args: argparse.Namespace) -> dict[str, Any]:
    which = timer_flags.filter_from(args)
    if not which:
        raise ConfigurationError("say which timers, such as --group or --status; or --all")
    if args.all and len(which) > 1:
        raise ConfigurationError("--all: means all timers; leave the other filters out")
    for action, flag in _NEEDS.items():
        if (args.action == action) != (getattr(args, flag) is not None):
            raise ConfigurationError(f"--{flag}: belongs to {action}, which needs it")
    return {"action": args.action, "which": which, **given(args, *_NEEDS.values())}


def _question(action: str, matched: Any) -> str:
    timers, them = (
        ("1 timer matches", "it")
        if matched == 1
        else (f"{number(matched)} timers match", "all of them")
    )
    return f"{timers}. {action.capitalize()} {them}?"


def _list(args: argparse.Namespace, client: Client, screen: Screen) -> int:
    answer = client.actions()
    if args.json:
        screen.json(answer)
    else:
        show_actions(screen, rows(answer, "actions"), SystemClock().now())
    return Exit.OK


def _get(args: argparse.Namespace, client: Client, screen: Screen) -> int:
    return _show(args, screen, client.get_action(args.id), Exit.OK)


def _cancel(args: argparse.Namespace, client: Client, screen: Screen) -> int:
    return _show(args, screen, client.cancel_action(args.id), Exit.OK)


def _watch(args: argparse.Namespace, client: Client, screen: Screen) -> int:
    """With --json each change is one line, as when a timer is watched."""
    action: Action = {**client.get_action(args.id), "id": args.id}
    if not args.json:
        action = wait_for(client, action, seconds_of(args.interval))
        return _show(args, screen, action, exit_of(action))

    def show_line(changed: Action) -> None:
        screen.json(changed, on_one_line=True)

    show_line(action)
    return exit_of(wait_for(client, action, seconds_of(args.interval), show_line))


def _show(args: argparse.Namespace, screen: Screen, action: Action, code: Exit) -> int:
    if args.json:
        screen.json(action)
    else:
        show_action(screen, action, SystemClock().now())
    return code
