"""The flags that describe a credential, and where its secret comes from: never an argument."""

import argparse
import os
import sys
from pathlib import Path
from typing import Any, get_args

from duetime.cli.arguments import given
from duetime.client.credential_types import CredentialType
from duetime.errors import ConfigurationError

# What a secret is called in a request, by the type of its credential.
SECRETS = {
    "bearer": "token",
    "basic": "password",
    "header": "value",
    "mtls": "private_key",
    "oauth2": "client_secret",
}
UNSET = ("groups", "authorities", "scope", "audience", "auth_style")


def add_name(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the credential's name")


def add_type(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--type", required=True, choices=get_args(CredentialType), help="what it is"
    )


def add_content(parser: argparse.ArgumentParser) -> None:
    where = parser.add_argument_group("who may use it, and where it goes")
    where.add_argument(
        "--host",
        dest="hosts",
        action="append",
        help="a host that it is sent to, or *.example.com for all below; may be repeated, and "
        "replaces all that were there",
    )
    where.add_argument(
        "--allow-http",
        action=argparse.BooleanOptionalAction,
        help="send it also without TLS",
    )
    where.add_argument(
        "--group",
        dest="groups",
        action="append",
        help="a group whose timers may use it; may be repeated (default: all)",
    )
    secret = parser.add_argument_group(
        "its secret: a token, a password, a header's value, a private key, a client's secret"
    ).add_mutually_exclusive_group()
    secret.add_argument(
        "--secret-file", metavar="FILE", help="the file that it is in; - is standard input"
    )
    secret.add_argument("--secret-env", metavar="VARIABLE", help="the variable that it is in")
    rest = parser.add_argument_group("what goes with its type")
    rest.add_argument("--username", metavar="TEXT", help="basic")
    rest.add_argument("--header", metavar="NAME", help="header: its name, such as X-Api-Key")
    rest.add_argument("--certificate", metavar="FILE", help="mtls: the chain in PEM")
    rest.add_argument(
        "--authorities", metavar="FILE", help="mtls: who may vouch for the receiver, in PEM"
    )
    rest.add_argument("--token-url", metavar="URL", help="oauth2: where tokens are to be had")
    rest.add_argument("--client-id", metavar="TEXT", help="oauth2")
    rest.add_argument("--scope", metavar="TEXT", help="oauth2")
    rest.add_argument("--audience", metavar="TEXT", help="oauth2")
    rest.add_argument(
        "--auth-style",
        choices=("basic", "body"),
        help="oauth2: how the client says who it is (default: basic)",
    )


def change_from(args: argparse.Namespace, type_: str) -> dict[str, Any]:
    """What was given, and nothing else."""
    texts = ("username", "header", "token_url", "client_id", "scope", "audience", "auth_style")
    change = given(args, "hosts", "allow_http", "groups", *texts)
    for name in ("certificate", "authorities"):
        if (file := getattr(args, name)) is not None:
            change[name] = _read(file, f"--{name}")
    if (secret := secret_from(args)) is not None:
        change[SECRETS.get(type_, "token")] = secret
    return change


def secret_from(args: argparse.Namespace) -> str | None:
    """The secret, without the end of line that editors and echo put behind it."""
    if args.secret_env is not None:
        secret = os.environ.get(args.secret_env)
        if not secret:
            raise ConfigurationError(f"--secret-env: {args.secret_env} is not set")
        return secret
    if args.secret_file is None:
        return None
    secret = _read(args.secret_file, "--secret-file").removesuffix("\n").removesuffix("\r")
    if not secret:
        raise ConfigurationError("--secret-file: there is nothing in it")
    return secret


def _read(file: str, flag: str) -> str:
    try:
        return (sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()).decode()
    except OSError as error:
        raise ConfigurationError(f"{flag}: cannot read {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{flag}: {file} is not a text in UTF-8") from None
