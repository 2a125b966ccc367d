"""The command that moves everything from one database to another."""

import argparse
import os

from duetime.cli.commands import Commands, add_command
from duetime.cli.settings_flags import add_flags, settings_from
from duetime.config.table import TABLE
from duetime.errors import ConfigurationError

FROM_VARIABLE = "COPY_FROM"
TO_VARIABLE = "COPY_TO"
RETENTION_VARIABLE = "AUDIT_RETENTION"  # the one setting of a node that a copy asks for
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
is migrated, and must be empty. What was stopped or has failed is resumed by the same command. In
the end both sides are read again and compared.

Timers move with their attempts, and so do tenants, keys, groups, bulk actions and the audit. Where
TO drops by itself what is old, it keeps the lines of the audit for {RETENTION_VARIABLE}: set it as
for the nodes.

exit codes:
  0  all is copied, and both sides are the same
  1  a database failed, or a node is running
  2  wrong usage: a wrong URL, the same database twice, or one that is not empty
  5  conflict: the two sides differ; the message names what differs
  130  interrupted""",
    )
    parser.add_argument(
        "source", metavar="FROM", help=f"the URL of a database; a dash: {FROM_VARIABLE} says it"
    )
    parser.add_argument(
        "target", metavar="TO", help=f"the URL of another one; a dash: {TO_VARIABLE} says it"
    )
    add_flags(parser, without=[each.env for each in TABLE if each.env != RETENTION_VARIABLE])


def _copy(args: argparse.Namespace) -> int:
    # Imported here: the commands that only call a node load no store.
    from duetime.cli.copier import run_copy  # noqa: PLC0415

    source = _url(args.source, "FROM", FROM_VARIABLE)
    target = _url(args.target, "TO", TO_VARIABLE)
    return run_copy(source, target, settings_from(args).audit_retention)


def _url(argument: str, name: str, variable: str) -> str:
    """The URL that an argument names, or the variable of the environment if it is a dash."""
    url = os.environ.get(variable) if argument == HIDDEN else argument
    if not url:
        raise ConfigurationError(f"{name}: name a database, or set {variable}")
    return url
