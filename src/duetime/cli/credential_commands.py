"""The commands about credentials: create, list, show, set, delete."""

import argparse
from typing import Any, cast

from duetime.cli import credential_flags, quota_flags
from duetime.cli.calling import add_calling_command
from duetime.cli.cells import rows
from duetime.cli.commands import Commands, add_noun
from duetime.cli.credential_flags import add_content, add_name, add_type
from duetime.cli.exits import HELP as EXITS
from duetime.cli.exits import Exit
from duetime.cli.output import Screen, printable
from duetime.cli.show_credentials import show_credential, show_credentials
from duetime.client import Client
from duetime.client.credential_types import CredentialChange, NewCredential
from duetime.clock import SystemClock
from duetime.errors import ConfigurationError


def add_to(commands: Commands) -> None:
    verbs = add_noun(
        commands,
        "credential",
        "Create, look at, change and delete credentials, with which callbacks authenticate",
        "duetime credential list",
        EXITS,
    )
    add_calling_command(
        verbs,
        "create",
        _create,
        "Create a credential",
        """\
  duetime credential create bank --type bearer --host api.bank.example --secret-file token.txt
  pass show bank | duetime credential create bank --type basic --username duetime \\
      --host api.bank.example --secret-file -
  duetime credential create partner --type mtls --host '*.partner.example' \\
      --certificate chain.pem --secret-file key.pem --authorities ca.pem
  duetime credential create crm --type oauth2 --host api.crm.example --secret-env CRM_SECRET \\
      --token-url https://login.crm.example/token --client-id duetime --scope timers

A secret is no argument, since every user of a machine can read those. It is never shown again.""",
        add_name,
        add_type,
        add_content,
    )
    add_calling_command(verbs, "list", _list, "List the credentials", "  duetime credential list")
    add_calling_command(
        verbs,
        "show",
        _show_one,
        "Show one credential, without its secret",
        "  duetime credential show bank",
        add_name,
    )
    add_calling_command(
        verbs,
        "set",
        _set,
        "Change a credential",
        """\
  duetime credential set bank --secret-file next-token.txt
  duetime credential set bank --group payments
  duetime credential set bank --unset groups

What is not named stays as it is. Timers that are there already use what it is now. For further
hosts, another --token-url or --allow-http its secret must be given again.""",
        add_name,
        add_content,
        lambda parser: quota_flags.add_unset(parser, credential_flags.UNSET),
    )
    add_calling_command(
        verbs,
        "delete",
        _delete,
        "Take a credential away",
        """\
  duetime credential delete bank

Timers that name it fail from then on. It is refused while a group gives it to its timers.""",
        add_name,
    )


def _create(args: argparse.Namespace, client: Client, screen: Screen) -> int:
    change = credential_flags.change_from(args, args.type)
    credential = cast("NewCredential", {"name": args.name, "type": args.type, **change})
    return _show(args, screen, client.create_credential(**credential))


def _list(args: argparse.Namespace, client: Client, screen: Screen) -> int:
    answer = client.credentials()
    if args.json:
        screen.json(answer)
    else:
        show_credentials(screen, rows(answer, "credentials"), SystemClock().now())
    return Exit.OK


def _show_one(args: argparse.Namespace, client: Client, screen: Screen) -> int:
    return _show(args, screen, client.get_credential(args.name))


def _set(args: argparse.Namespace, client: Client, screen: Screen) -> int:
    # What its secret is called depends on its type, which it has already.
    has_secret = args.secret_file is not None or args.secret_env is not None
    type_ = str(client.get_credential(args.name).get("type")) if has_secret else ""
    change = credential_flags.change_from(args, type_)
    quota_flags.take_back(args, change)
    if not change:
        raise ConfigurationError("name what to change, such as --secret-file; --help lists it all")
    return _show(args, screen, client.put_credential(args.name, **cast("CredentialChange", change)))


def _delete(args: argparse.Namespace, client: Client, screen: Screen) -> int:
    answer = client.delete_credential(args.name)
    if args.json:
        screen.json(answer)
    else:
        screen.line(f"Deleted the credential {printable(args.name)}.")
    return Exit.OK


def _show(args: argparse.Namespace, screen: Screen, credential: Any) -> int:
    if args.json:
        screen.json(credential)
    else:
        show_credential(screen, credential, SystemClock().now())
    return Exit.OK
