"""The command that shows what the key in use is good for."""

import argparse

from duetime.cli.calling import add_calling_command
from duetime.cli.commands import Commands
from duetime.cli.exits import Exit
from duetime.cli.output import Screen
from duetime.cli.show_tenancy import show_whoami
from duetime.client import Client


def add_to(commands: Commands) -> None:
    add_calling_command(
        commands,
        "whoami",
        _whoami,
        "Show what the key in use is good for",
        "  duetime whoami\n  duetime whoami --tenant acme --json",
    )


def _whoami(args: argparse.Namespace, client: Client, screen: Screen) -> int:
    answer = client.whoami()
    if args.json:
        screen.json(answer)
    else:
        show_whoami(screen, answer)
    return Exit.OK
