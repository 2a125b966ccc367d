"""The command line: the composition root."""

import argparse
import os
import sys
from collections.abc import Sequence
from http import HTTPStatus

from duetime import __version__
from duetime.cli import (
    action_commands,
    audit_commands,
    bench_command,
    copy_command,
    credential_commands,
    events_command,
    exits,
    group_commands,
    key_commands,
    node_commands,
    nodes_command,
    receiver_command,
    secret_commands,
    target_commands,
    tenant_commands,
    timer_commands,
    usage_command,
    verify_command,
    whoami_command,
)
from duetime.cli.commands import add_command
from duetime.cli.exits import Exit, exit_for
from duetime.cli.output import printable
from duetime.client import ClientError, ServiceError
from duetime.errors import ConfigurationError, DuetimeError

_EXAMPLES = f"""\
examples:
  duetime dev                                      run it, with a key and a receiver
  duetime timer create --in 5s --url http://...    create a timer
  duetime timer watch                              look at what is going on
  duetime <command> --help                         more about a command

{exits.HELP}"""


def build_parser() -> argparse.ArgumentParser:
    """The whole command line."""
    parser = argparse.ArgumentParser(
        prog="duetime",
        description="A durable timer service: at the time you name, it delivers your callback.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"duetime {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="<command>", required=True)
    node_commands.add_to(commands)
    copy_command.add_to(commands)
    timer_commands.add_to(commands)
    action_commands.add_to(commands)
    group_commands.add_to(commands)
    credential_commands.add_to(commands)
    target_commands.add_to(commands)
    tenant_commands.add_to(commands)
    key_commands.add_to(commands)
    secret_commands.add_to(commands)
    usage_command.add_to(commands)
    whoami_command.add_to(commands)
    audit_commands.add_to(commands)
    events_command.add_to(commands)
    nodes_command.add_to(commands)
    receiver_command.add_to(commands)
    verify_command.add_to(commands)
    bench_command.add_to(commands)
    add_command(commands, "version", _version, "Print the version", "")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the answer is the exit code."""
    try:
        args, unknown = build_parser().parse_known_args(argv)
        if unknown:  # it would be told with the usage of all commands, and not of this one
            args.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
        code = int(args.run(args))
        sys.stdout.flush()
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has seen enough. Python would flush once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.BROKEN_PIPE
    except ClientError as error:
        return _tell(error, exit_for(error))
    except ConfigurationError as error:
        return _tell(error, Exit.USAGE)
    except DuetimeError as error:
        return _tell(error, Exit.FAILED)
    return code


def _version(_: argparse.Namespace) -> int:
    print(f"duetime {__version__}")
    return Exit.OK


def _tell(error: DuetimeError, code: Exit) -> Exit:
    is_foreign = isinstance(error, ClientError)  # and might take over a terminal
    print(f"duetime: {printable(str(error)) if is_foreign else error}", file=sys.stderr)
    if isinstance(error, ServiceError) and error.status == HTTPStatus.FORBIDDEN:
        print("`duetime whoami` shows what this key is good for.", file=sys.stderr)
    elif code is Exit.UNAUTHORIZED:
        print("Set API_KEY, or pass the key with --api-key.", file=sys.stderr)
    if isinstance(error, ServiceError) and error.retry_after:
        print(f"Try again in {error.retry_after:,.0f} s.", file=sys.stderr)
    return code
