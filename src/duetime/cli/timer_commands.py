"""The commands about timers: create, get, list, cancel, fire, pause, resume, attempts, watch."""

import argparse
from collections.abc import Callable
from typing import Any

from duetime.cli import calling, new_timer, timer_flags
from duetime.cli.commands import Commands, add_command
from duetime.cli.exits import HELP as EXITS
from duetime.cli.exits import Exit
from duetime.cli.output import Screen
from duetime.cli.show import show_attempts, show_timer, show_timers
from duetime.cli.watch import watch_list, watch_timer
from duetime.client import Client
from duetime.client.types import Page, Timer
from duetime.clock import SystemClock


def add_to(commands: Commands) -> None:
    timer = commands.add_parser(
        "timer",
        help="create, look at and change the timers of a running service",
        description="Create, look at and change the timers of a running service.",
        epilog=f"examples:\n  duetime timer list --status failed\n\n{EXITS}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    verbs = timer.add_subparsers(title="commands", metavar="<command>", required=True)
    _add(
        verbs,
        "create",
        _create,
        "Create a timer",
        """\
  duetime timer create --in 10s --url https://example.com/hook --data '{"cart": 42}'
  duetime timer create --at 2030-01-01T09:00:00Z --url https://example.com/hook --id new-year
  duetime timer create --in 3d --url https://example.com/hook --data @body.json \\
      --header 'Authorization: Bearer token' --max-attempts 5""",
        new_timer.add_flags,
    )
    _add(
        verbs,
        "list",
        _list,
        "List timers",
        """\
  duetime timer list --status pending --sort execute_at --order asc
  duetime timer list --tag billing --all --json""",
        timer_flags.add_filters,
        timer_flags.add_paging,
    )
    for verb, summary in (
        ("get", "Show one timer"),
        ("cancel", "Make sure that a timer never starts"),
        ("fire", "Make a timer due now"),
        ("pause", "Hold a timer back until it is resumed"),
        ("resume", "Let a paused timer go on"),
        ("attempts", "Show a timer's execution log"),
    ):
        run = {"get": _get, "cancel": _cancel, "attempts": _attempts}.get(verb, _act(verb))
        examples = f"  duetime timer {verb} 01890a5d-ac96-774b-bcce-b302099a8057\n"
        examples += f"  duetime timer {verb} --group carts --id cart-42"
        _add(verbs, verb, run, summary, examples, timer_flags.add_which)
    _add(
        verbs,
        "watch",
        _watch,
        "Follow a timer until it is finished, or the list without an end",
        """\
  duetime timer watch 01890a5d-ac96-774b-bcce-b302099a8057 && echo delivered
  duetime timer watch --status executing

With an ID it prints each change that it sees, and ends with 0 if the timer completed, with 1
if it failed or was canceled. With --json each is one line of JSON. Without an ID it shows the
list again and again, until Ctrl-C.""",
        timer_flags.add_pace,
        timer_flags.add_filters,
    )


def _add(
    verbs: Commands,
    name: str,
    run: Callable[[argparse.Namespace, Client, Screen], int],
    summary: str,
    examples: str,
    *add_flags: Callable[[argparse.ArgumentParser], None],
) -> None:
    """A command that calls the service."""

    def run_with_client(args: argparse.Namespace) -> int:
        with calling.open_client(args) as client:
            return run(args, client, Screen())

    parser = add_command(verbs, name, run_with_client, summary, f"examples:\n{examples}\n\n{EXITS}")
    for add in (*add_flags, calling.add_flags):
        add(parser)


def _create(args: argparse.Namespace, client: Client, screen: Screen) -> int:
    return _show(args, screen, client.create(**new_timer.timer_from(args)))


def _get(args: argparse.Namespace, client: Client, screen: Screen) -> int:
    if timer_flags.is_by_key(args):
        return _show(args, screen, client.get_by_key(args.group, args.timer_id))
    return _show(args, screen, client.get(args.timer))


def _cancel(args: argparse.Namespace, client: Client, screen: Screen) -> int:
    if timer_flags.is_by_key(args):
        return _show(args, screen, client.cancel_by_key(args.group, args.timer_id))
    return _show(args, screen, client.cancel(args.timer))


def _act(verb: str) -> Callable[[argparse.Namespace, Client, Screen], int]:
    def run(args: argparse.Namespace, client: Client, screen: Screen) -> int:
        return _show(args, screen, getattr(client, verb)(_id(args, client)))

    return run


def _attempts(args: argparse.Namespace, client: Client, screen: Screen) -> int:
    answer = client.attempts(_id(args, client))
    if args.json:
        screen.json(answer)
    else:
        show_attempts(screen, answer["attempts"], SystemClock().now())
    return Exit.OK


def _list(args: argparse.Namespace, client: Client, screen: Screen) -> int:
    filters = timer_flags.filters_from(args)
    if args.all:
        timers = list(client.list(**filters))
        page: Page = {"timers": timers, "total": len(timers)}
    else:
        page = client.page(**filters)
    if args.json:
        screen.json(page)
        return Exit.OK
    show_timers(screen, page["timers"], SystemClock().now())
    shown, total = len(page["timers"]), page.get("total")
    if not args.all and page.get("next_cursor"):
        of_all = f" of {total}" if total is not None else ""
        screen.line(screen.colour("dim", f"{shown}{of_all}; --all shows all of them"))
    return Exit.OK


def _watch(args: argparse.Namespace, client: Client, screen: Screen) -> int:
    if args.timer:
        return watch_timer(client, screen, args.timer, args.interval, as_json=args.json)
    return watch_list(
        client, screen, timer_flags.filters_from(args), args.interval, as_json=args.json
    )


def _id(args: argparse.Namespace, client: Client) -> Any:
    if timer_flags.is_by_key(args):
        return client.get_by_key(args.group, args.timer_id)["id"]
    return args.timer


def _show(args: argparse.Namespace, screen: Screen, timer: Timer) -> int:
    if args.json:
        screen.json(timer)
    else:
        show_timer(screen, timer, SystemClock().now())
    return Exit.OK
