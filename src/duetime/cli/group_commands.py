"""The commands about groups: create, list, get, set, pause, resume, delete."""

import argparse
import sys
from http import HTTPStatus
from typing import Any, cast

from duetime.cli import group_flags, quota_flags
from duetime.cli.asking import add_yes, is_agreed
from duetime.cli.calling import add_calling_command
from duetime.cli.cells import rows
from duetime.cli.commands import Commands, add_noun
from duetime.cli.exits import HELP as EXITS
from duetime.cli.exits import Exit
from duetime.cli.group_flags import add_content, add_name
from duetime.cli.output import Screen, printable
from duetime.cli.show_tenancy import show_group, show_groups
from duetime.client import Client, tenancy_calls
from duetime.client.tenancy_types import GroupChange
from duetime.clock import SystemClock
from duetime.errors import ConfigurationError


def add_to(commands: Commands) -> None:
    verbs = add_noun(
        commands,
        "group",
        "Create, look at, change, pause and resume groups of timers",
        "duetime group list",
        EXITS,
    )
    add_calling_command(
        verbs,
        "create",
        _create,
        "Create a group",
        """\
  duetime group create carts --max-attempts 5 --timeout 10s --quota pending=50000
  duetime group create mail --num-shards 16 --header 'X-Source: duetime'""",
        add_name,
        add_content,
    )
    add_calling_command(verbs, "list", _list, "List the groups", "  duetime group list")
    add_calling_command(verbs, "get", _get, "Show one group", "  duetime group get carts", add_name)
    add_calling_command(
        verbs,
        "set",
        _set,
        "Change a group, or create it",
        """\
  duetime group set carts --retention 7d --on-resume latest
  duetime group set carts --quota pending=none --unset timeout

What is not named stays as it is. Timers that are there already do not change.""",
        add_name,
        add_content,
        lambda parser: quota_flags.add_unset(parser, group_flags.UNSET),
    )
    add_calling_command(
        verbs,
        "pause",
        _pause,
        "Start nothing of a group until it is resumed",
        """\
  duetime group pause carts && echo 'nothing of it starts any more'

It waits until every node obeys, and ends with 1 if not all have confirmed it in time: then some may
still start timers of the group. The same command again waits on.""",
        add_name,
    )
    add_calling_command(
        verbs,
        "resume",
        _resume,
        "Let a paused group go on",
        "  duetime group resume carts",
        add_name,
    )
    add_calling_command(
        verbs,
        "delete",
        _delete,
        "Take a group away",
        """\
  duetime group delete carts
  duetime group delete carts --cancel
  duetime group delete carts --cancel --yes

It is refused while timers of the group are still to come, unless they are to be canceled. Then it
asks on a terminal, and takes --yes elsewhere.""",
        add_name,
        _add_cancel,
        add_yes,
    )


def _add_cancel(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--cancel", action="store_true", help="cancel all of its timers that are still to come"
    )


def _create(args: argparse.Namespace, client: Client, screen: Screen) -> int:
    group = cast("GroupChange", group_flags.change_from(args))
    return _show(args, screen, client.create_group(name=args.name, **group))


def _list(args: argparse.Namespace, client: Client, screen: Screen) -> int:
    answer = client.groups()
    if args.json:
        screen.json(answer)
    else:
        show_groups(screen, rows(answer, "groups"), SystemClock().now())
    return Exit.OK


def _get(args: argparse.Namespace, client: Client, screen: Screen) -> int:
    return _show(args, screen, client.get_group(args.name))


def _set(args: argparse.Namespace, client: Client, screen: Screen) -> int:
    change = group_flags.change_from(args)
    quota_flags.take_back(args, change)
    if not change:
        raise ConfigurationError("name what to change, such as --timeout; --help lists it all")
    return _show(args, screen, client.put_group(args.name, **cast("GroupChange", change)))


def _pause(args: argparse.Namespace, client: Client, screen: Screen) -> int:
    answer = client.exchange(tenancy_calls.pause_group(args.name))
    _show(args, screen, answer.data)
    if answer.status != HTTPStatus.ACCEPTED:
        return Exit.OK
    print(f"duetime: {printable(answer.message)}", file=sys.stderr)
    print("The same command again waits for them.", file=sys.stderr)
    return Exit.FAILED


def _resume(args: argparse.Namespace, client: Client, screen: Screen) -> int:
    return _show(args, screen, client.resume_group(args.name))


def _delete(args: argparse.Namespace, client: Client, screen: Screen) -> int:
    name = printable(args.name)
    question = f"Delete the group {name}, and cancel all of its timers that are still to come?"
    if args.cancel and not is_agreed(args, question):
        return Exit.FAILED
    answer = client.exchange(tenancy_calls.delete_group(args.name, cancel=args.cancel))
    if args.json:
        screen.json(answer.data)
    elif answer.status == HTTPStatus.ACCEPTED:
        screen.line(f"{printable(answer.message)}.")
    else:
        screen.line(f"Deleted the group {name}.")
    return Exit.OK


def _show(args: argparse.Namespace, screen: Screen, group: Any) -> int:
    if args.json:
        screen.json(group)
    else:
        show_group(screen, group, SystemClock().now())
    return Exit.OK
