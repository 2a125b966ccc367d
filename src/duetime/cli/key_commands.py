"""The commands about the keys of a tenant: create, list, rotate, revoke."""

import argparse
import sys
from typing import cast, get_args

from duetime.cli.arguments import duration, given, key_id
from duetime.cli.calling import add_calling_command, tenant_in
from duetime.cli.cells import rows, show_lines
from duetime.cli.commands import Commands, add_noun
from duetime.cli.exits import HELP as EXITS
from duetime.cli.exits import Exit
from duetime.cli.output import Screen, printable
from duetime.cli.show_tenancy import show_key, show_keys
from duetime.client import Client
from duetime.client.tenancy_types import MadeKey, NewKey, Role
from duetime.clock import SystemClock


def add_to(commands: Commands) -> None:
    verbs = add_noun(
        commands,
        "key",
        "Create, list, rotate and revoke the API keys of a tenant",
        "duetime key create ci --role write",
        EXITS,
    )
    add_calling_command(
        verbs,
        "create",
        _create,
        "Create a key",
        """\
  duetime key create billing --role write
  duetime key create dashboard --role read_without_payloads --group carts --expires-in 90d
  KEY=$(duetime key create ci --role admin --tenant acme)

The key is printed once, and is never shown again. Where standard output is no terminal, it is all
that is printed there.""",
        _add_content,
    )
    add_calling_command(verbs, "list", _list, "List the keys of a tenant", "  duetime key list")
    add_calling_command(
        verbs,
        "rotate",
        _rotate,
        "Make another key that is good for the same",
        """\
  duetime key rotate 9f1c0e5a77d2b364
  KEY=$(duetime key rotate 9f1c0e5a77d2b364 --valid-for 1h)

The new key is printed once, and is never shown again. The old one stays valid for a while.""",
        _add_id,
        _add_valid_for,
    )
    add_calling_command(
        verbs,
        "revoke",
        _revoke,
        "End a key, within seconds and for ever",
        "  duetime key revoke 9f1c0e5a77d2b364",
        _add_id,
    )


def _add_content(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="what it is for; the audit names it")
    parser.add_argument("--role", required=True, choices=get_args(Role), help="what it may do")
    parser.add_argument(
        "--group",
        dest="groups",
        action="append",
        help="the only group that there is for it; may be repeated (default: all)",
    )
    expiry = parser.add_mutually_exclusive_group()
    expiry.add_argument("--expires-in", type=duration, metavar="DURATION", help="90d")
    expiry.add_argument(
        "--expires-at",
        metavar="TIME",
        help="RFC 3339 (default: never, or with the key that makes it)",
    )


def _add_id(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", type=key_id, metavar="ID", help="the key's id, as `list` shows it")


def _add_valid_for(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--valid-for",
        type=duration,
        metavar="DURATION",
        help="how long the old key stays valid (default: 24h)",
    )


def _create(args: argparse.Namespace, client: Client, screen: Screen) -> int:
    key = cast("NewKey", given(args, "name", "role", "groups", "expires_in", "expires_at"))
    return _show_made(args, screen, client.create_key(_tenant(args, client), **key))


def _rotate(args: argparse.Namespace, client: Client, screen: Screen) -> int:
    made = client.rotate_key(_tenant(args, client), args.id, valid_for=args.valid_for)
    return _show_made(args, screen, made)


def _list(args: argparse.Namespace, client: Client, screen: Screen) -> int:
    answer = client.keys(_tenant(args, client))
    if args.json:
        screen.json(answer)
    else:
        show_keys(screen, rows(answer, "keys"), SystemClock().now())
    return Exit.OK


def _revoke(args: argparse.Namespace, client: Client, screen: Screen) -> int:
    answer = client.revoke_key(_tenant(args, client), args.id)
    if args.json:
        screen.json(answer)
    else:
        screen.line(f"Revoked the key {printable(args.id)}.")
    return Exit.OK


def _tenant(args: argparse.Namespace, client: Client) -> str:
    """The tenant that was named, or else the one that the key acts for."""
    if named := tenant_in(args):
        return named
    return client.whoami()["tenant"]


def _show_made(args: argparse.Namespace, screen: Screen, made: MadeKey) -> int:
    """The key once: for people among what is known of it, for a pipe alone."""
    if args.json:
        screen.json(made)
    elif screen.is_terminal:
        show_key(screen, made, SystemClock().now())
        show_lines(screen, {"key": made["key"]})
    else:
        screen.line(printable(made["key"]))
    which = printable(str(made.get("id", "")))
    print(f"Keep it: the key {which} is never shown again.", file=sys.stderr)
    return Exit.OK
