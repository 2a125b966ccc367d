"""How a command is added to the command line: its name, what it does, and its help."""

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001 - has no other name
else:
    Commands = object


def add_noun(commands: Commands, name: str, summary: str, example: str, exits: str) -> Commands:
    """A command that has commands of its own, each about the same thing."""
    parser = commands.add_parser(
        name,
        help=summary[0].lower() + summary[1:],
        description=summary + ".",
        epilog=f"examples:\n  {example}\n\n{exits}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    return parser.add_subparsers(title="commands", metavar="<command>", required=True)


def add_command(
    commands: Commands,
    name: str,
    run: Callable[[argparse.Namespace], int],
    summary: str,
    epilog: str,
) -> argparse.ArgumentParser:
    """A command that ends with what ``run`` answers."""
    parser = commands.add_parser(
        name,
        help=summary[0].lower() + summary[1:],
        description=summary + ".",
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.set_defaults(run=run, parser=parser)
    return parser
