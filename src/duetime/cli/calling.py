"""Calling a running service: its address, the key, and the flags that all such commands have."""

import argparse
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from duetime.cli.commands import Commands, add_command
from duetime.cli.devkey import key_path, read_key
from duetime.cli.exits import HELP as EXITS
from duetime.cli.output import Screen
from duetime.client import DEFAULT_URL, Client
from duetime.config.dotenv import DOTENV, read_dotenv
from duetime.config.table import TABLE

_DEFAULT_DATABASE = next(setting.default for setting in TABLE if setting.env == "DATABASE_URL")

Run = Callable[[argparse.Namespace, Client, Screen], int]
AddFlags = Callable[[argparse.ArgumentParser], None]


def add_calling_command(
    commands: Commands, name: str, run: Run, summary: str, examples: str, *add: AddFlags
) -> None:
    """A command that calls the service; ``examples`` may go on with more that is to be said."""

    def run_with_client(args: argparse.Namespace) -> int:
        with open_client(args) as client:
            return run(args, client, Screen())

    epilog = f"examples:\n{examples}\n\n{EXITS}"
    parser = add_command(commands, name, run_with_client, summary, epilog)
    for each in (*add, add_flags):
        each(parser)


def add_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of every command that calls the service."""
    group = parser.add_argument_group("service")
    group.add_argument(
        "--server", metavar="URL", help=f"its address (or DUETIME_URL; default: {DEFAULT_URL})"
    )
    group.add_argument(
        "--api-key",
        metavar="KEY",
        help="the key, for all users of this machine to see; rather set API_KEY, also in .env "
        "(default: the one that `duetime dev` made)",
    )
    group.add_argument(
        "--tenant",
        metavar="NAME",
        help="act for this tenant (or DUETIME_TENANT; default: the key's own)",
    )
    group.add_argument(
        "--json", action="store_true", help="print what the service answered, for machines"
    )


@contextmanager
def open_client(args: argparse.Namespace) -> Iterator[Client]:
    """A client for the service that the flags, the environment or .env name."""
    surroundings = _surroundings()
    url = args.server or surroundings.get("DUETIME_URL") or DEFAULT_URL
    database = surroundings.get("DATABASE_URL") or _DEFAULT_DATABASE
    key = args.api_key or surroundings.get("API_KEY") or read_key(key_path(database))
    with _interrupted_at_once(), Client(url, api_key=key, tenant=tenant_in(args)) as client:
        yield client


def tenant_in(args: argparse.Namespace) -> str | None:
    """The tenant that the flag, the environment or .env name."""
    return args.tenant or _surroundings().get("DUETIME_TENANT")


def _surroundings() -> Mapping[str, str]:
    return {**read_dotenv(DOTENV).values, **{k: v for k, v in os.environ.items() if v}}


@contextmanager
def _interrupted_at_once() -> Iterator[None]:
    """Let Ctrl-C end the process while it waits for an answer.

    Python's own handler runs only once the HTTP library's wait is over, which may be long; and
    there is nothing here to tidy up.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
