"""The command that moves everything from one database to another."""

import argparse
import os

from duetime.cli.commands import Commands, add_command
from duetime.errors import ConfigurationError

FROM_VARIABLE = "COPY_FROM"
TO_VARIABLE = "COPY_TO"
HIDDEN = "-"  # instead of a URL: it is in the environment


def add_to(commands: Commands) -> None:
    parser = add_command(
        commands,
        "copy",
        _copy,
        "Copy everything from one database into another",
        f"""\
examples:
  duetime copy sqlite:///data/duetime.db postgresql://host/database
  {TO_VARIABLE}=postgresql://user:password@host/database duetime copy sqlite:///data/duetime.db -
  duetime copy "postgresql://host/db?schema=old" "postgresql://host/db?schema=new"

Other users of a machine can see the arguments of a command: a URL with a password is better
passed by {FROM_VARIABLE} and {TO_VARIABLE}, with a dash in its place.

Stop all nodes first; a node that runs on either side is a reason to refuse. FROM is only read. TO
is migrated, and must hold no timers. What was stopped or has failed is resumed by the same command.
In the end both sides are read again and compared.

exit codes:
  0  all is copied, and both sides are the same
  1  a database failed, or a node is running
  2  wrong usage: a wrong URL, the same database twice, or one that is not empty
  5  conflict: the two sides differ; the message names the timers
  130  interrupted""",
    )
    parser.add_argument(
        "source", metavar="FROM", help=f"the URL of a database; a dash: {FROM_VARIABLE} says it"
    )
    parser.add_argument(
        "target", metavar="TO", help=f"the URL of another one; a dash: {TO_VARIABLE} says it"
    )


def _copy(args: argparse.Namespace) -> int:
    # Imported here: the commands that only call a node load no store.
    from duetime.cli.copier import run_copy  # noqa: PLC0415

    return run_copy(_url(args.source, "FROM", FROM_VARIABLE), _url(args.target, "TO", TO_VARIABLE))


def _url(argument: str, name: str, variable: str) -> str:
    """The URL that an argument names, or the variable of the environment if it is a dash."""
    url = os.environ.get(variable) if argument == HIDDEN else argument
    if not url:
        raise ConfigurationError(f"{name}: name a database, or set {variable}")
    return url
