"""The command that shows how much a tenant has, and how much it may have."""

import argparse

from duetime.cli.calling import add_calling_command
from duetime.cli.commands import Commands
from duetime.cli.exits import Exit
from duetime.cli.output import Screen
from duetime.cli.show_tenancy import show_usage
from duetime.client import Client
from duetime.clock import SystemClock


def add_to(commands: Commands) -> None:
    add_calling_command(
        commands,
        "usage",
        _usage,
        "Show how much a tenant has, and how much it may have",
        "  duetime usage\n  duetime usage --tenant acme --json",
    )


def _usage(args: argparse.Namespace, client: Client, screen: Screen) -> int:
    answer = client.usage()
    if args.json:
        screen.json(answer)
    else:
        show_usage(screen, answer, SystemClock().now())
    return Exit.OK
