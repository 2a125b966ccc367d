"""The commands about signing secrets: create, list, rotate, revoke, reseal."""

import argparse
import sys
from typing import cast

from duetime.cli.arguments import duration, given, secret_id
from duetime.cli.calling import AddFlags, add_calling_command
from duetime.cli.cells import cell, rows, show_lines
from duetime.cli.commands import Commands, add_noun
from duetime.cli.exits import HELP as EXITS
from duetime.cli.exits import Exit
from duetime.cli.output import Screen, printable
from duetime.cli.secret_files import secrets_in_file
from duetime.cli.show_secrets import show_secret, show_secrets
from duetime.client import Client
from duetime.client.secret_types import MadeSigningSecret, NewSigningSecret
from duetime.clock import SystemClock


def add_to(commands: Commands) -> None:
    verbs = add_noun(
        commands,
        "secret",
        "Create, list, rotate and revoke the secrets that callbacks are signed with",
        "duetime secret create --group carts",
        EXITS,
    )
    add_calling_command(
        verbs,
        "create",
        _create,
        "Create a signing secret",
        """\
  duetime secret create
  SECRET=$(duetime secret create --group carts --expires-in 365d)
  duetime secret create --group carts --secret-file whsec.txt

The secret is printed once, and is never shown again. Where standard output is no terminal, it is
all that is printed there. One that is read from a file is not printed.""",
        _add_group("whose callbacks it signs (default: all groups that have none of their own)"),
        _add_own,
        _add_end,
    )
    add_calling_command(
        verbs,
        "list",
        _list,
        "List the signing secrets of a tenant and its groups",
        "  duetime secret list\n  duetime secret list --group carts",
        _add_group("only those of this group"),
    )
    add_calling_command(
        verbs,
        "rotate",
        _rotate,
        "Make another signing secret for the same",
        """\
  duetime secret rotate 9f1c0e5a77d2b364
  SECRET=$(duetime secret rotate 9f1c0e5a77d2b364 --valid-for 7d)

The new secret is printed once, and is never shown again. For a while, callbacks are signed with
both, so that a receiver that knows either of them accepts them.""",
        _add_id,
        _add_valid_for,
        _add_own,
    )
    add_calling_command(
        verbs,
        "revoke",
        _revoke,
        "End a signing secret, within seconds and for ever",
        "  duetime secret revoke 9f1c0e5a77d2b364",
        _add_id,
    )
    add_calling_command(
        verbs,
        "reseal",
        _reseal,
        "Seal all secrets of all tenants with the newest SECRETS_KEY",
        """\
  duetime secret reseal && echo 'the older keys can go'

It takes the operator's key. It ends with 1 if some secrets cannot be opened by any key that the
service has; these stay as they are, and are named.""",
    )


def _add_group(text: str) -> AddFlags:
    def add(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--group", metavar="GROUP", help=text)

    return add


def _add_own(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--secret-file",
        metavar="FILE",
        help="take the secret in this file, whsec_..., instead of a new one; a dash: from "
        "standard input",
    )


def _add_end(parser: argparse.ArgumentParser) -> None:
    expiry = parser.add_mutually_exclusive_group()
    expiry.add_argument("--expires-in", type=duration, metavar="DURATION", help="365d")
    expiry.add_argument("--expires-at", metavar="TIME", help="RFC 3339 (default: never)")


def _add_id(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "id", type=secret_id, metavar="ID", help="the secret's id, as `list` shows it"
    )


def _add_valid_for(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--valid-for",
        type=duration,
        metavar="DURATION",
        help="how long callbacks are signed with the old one, too (default: 24h)",
    )


def _create(args: argparse.Namespace, client: Client, screen: Screen) -> int:
    new = cast("NewSigningSecret", given(args, "group", "expires_in", "expires_at"))
    if own := _own(args):
        new["secret"] = own
    return _show_made(args, screen, client.create_signing_secret(**new))


def _list(args: argparse.Namespace, client: Client, screen: Screen) -> int:
    answer = client.signing_secrets(group=args.group)
    if args.json:
        screen.json(answer)
    else:
        show_secrets(screen, rows(answer, "signing_secrets"), SystemClock().now())
    return Exit.OK


def _rotate(args: argparse.Namespace, client: Client, screen: Screen) -> int:
    made = client.rotate_signing_secret(args.id, valid_for=args.valid_for, secret=_own(args))
    return _show_made(args, screen, made)


def _revoke(args: argparse.Namespace, client: Client, screen: Screen) -> int:
    answer = client.revoke_signing_secret(args.id)
    if args.json:
        screen.json(answer)
    else:
        screen.line(f"Revoked the signing secret {printable(args.id)}.")
    return Exit.OK


def _reseal(args: argparse.Namespace, client: Client, screen: Screen) -> int:
    answer = client.reseal_secrets()
    unreadable = rows(answer, "unreadable")
    if args.json:
        screen.json(answer)
    else:
        for each in unreadable:
            screen.line(f"cannot be opened: {cell(each.get('id'))} of {cell(each.get('tenant'))}")
        screen.line(f"{answer.get('resealed')} of {answer.get('kept')} secrets were sealed anew.")
    return Exit.FAILED if unreadable else Exit.OK


def _own(args: argparse.Namespace) -> str | None:
    """The secret that they have already; no argument shows it."""
    return secrets_in_file(args.secret_file, most=1)[0] if args.secret_file else None


def _show_made(args: argparse.Namespace, screen: Screen, made: MadeSigningSecret) -> int:
    """The secret once: for people among what is known of it, for a pipe alone."""
    text, which = made.get("secret"), printable(str(made["id"]))
    if args.json:
        screen.json(made)
    elif screen.is_terminal:
        show_secret(screen, made, SystemClock().now())
        show_lines(screen, {"secret": text})
    elif text:
        screen.line(printable(text))
    if text:
        print(f"Keep it: the signing secret {which} is never shown again.", file=sys.stderr)
    else:
        print(f"The signing secret {which} is the one that you gave.", file=sys.stderr)
    return Exit.OK
