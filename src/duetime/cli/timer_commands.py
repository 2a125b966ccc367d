"""The commands about timers: create, get, list, cancel, fire, pause, resume, redrive, and so on."""

import argparse
from collections.abc import Callable
from typing import Any

from duetime.cli import new_timer, timer_flags
from duetime.cli.calling import add_calling_command
from duetime.cli.commands import Commands, add_noun
from duetime.cli.exits import HELP as EXITS
from duetime.cli.exits import Exit
from duetime.cli.output import Screen
from duetime.cli.show import show_attempts, show_timer, show_timers
from duetime.cli.watch import watch_list, watch_timer
from duetime.client import Client
from duetime.client.types import Page, Timer
from duetime.clock import SystemClock


def add_to(commands: Commands) -> None:
    verbs = add_noun(
        commands,
        "timer",
        "Create, look at and change the timers of a running service",
        "duetime timer list --status failed",
        EXITS,
    )
    add_calling_command(
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
    add_calling_command(
        verbs,
        "list",
        _list,
        "List timers",
        """\
  duetime timer list --status pending --sort execute_at --order asc
  duetime timer list --tag billing --all --json
  duetime timer list --status failed --status canceled --metadata customer.id=42""",
        timer_flags.add_filters,
        timer_flags.add_paging,
    )
    for verb, summary in (
        ("get", "Show one timer"),
        ("cancel", "Make sure that a timer never starts"),
        ("fire", "Make a timer due now"),
        ("pause", "Hold a timer back until it is resumed"),
        ("resume", "Let a paused timer go on"),
        ("redrive", "Try a failed timer again; many: duetime action start redrive"),
        ("attempts", "Show a timer's execution log"),
    ):
        run = {"get": _get, "cancel": _cancel, "attempts": _attempts}.get(verb, _act(verb))
        examples = f"  duetime timer {verb} 01890a5d-ac96-774b-bcce-b302099a8057\n"
        examples += f"  duetime timer {verb} --group carts --id cart-42"
        add_calling_command(verbs, verb, run, summary, examples, timer_flags.add_which)
    add_calling_command(
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
