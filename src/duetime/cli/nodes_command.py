"""The command that shows the nodes of a running service."""

import argparse

from duetime.cli import calling
from duetime.cli.commands import Commands, add_command
from duetime.cli.exits import HELP as EXITS
from duetime.cli.exits import Exit
from duetime.cli.output import Screen
from duetime.cli.show import show_nodes
from duetime.clock import SystemClock


def add_to(commands: Commands) -> None:
    parser = add_command(
        commands,
        "nodes",
        _nodes,
        "Show the nodes of a running service",
        f"""\
examples:
  duetime nodes
  duetime nodes --with-shards --json

The node that answers is marked with an asterisk.

{EXITS}""",
    )
    parser.add_argument(
        "--with-shards", action="store_true", help="with --json: also tell which shards each has"
    )
    calling.add_flags(parser)


def _nodes(args: argparse.Namespace) -> int:
    screen = Screen()
    with calling.open_client(args) as client:
        answer = client.nodes(with_shards=args.with_shards)
    if args.json:
        screen.json(answer)
    else:
        show_nodes(screen, answer["nodes"], SystemClock().now())
    return Exit.OK
