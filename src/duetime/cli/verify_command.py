"""The command `duetime verify`: tells whether a callback is genuine, as a receiver would."""

import argparse
import os
import sys
from pathlib import Path

from duetime import webhooks
from duetime.cli.arguments import duration, header
from duetime.cli.commands import Commands, add_command
from duetime.cli.exits import Exit
from duetime.cli.output import Screen, printable
from duetime.cli.secret_files import STDIN, checked, secrets_in_file
from duetime.clock import to_rfc3339
from duetime.durations import parse_duration
from duetime.errors import ConfigurationError, InvalidRequest
from duetime.requests import to_time

VARIABLE = "WEBHOOK_SECRETS"


def add_to(commands: Commands) -> None:
    parser = add_command(
        commands,
        "verify",
        _verify,
        "Tell whether a callback is genuine, by its signatures",
        f"""\
examples:
  {VARIABLE}=$SECRET duetime verify body.json \\
      --header 'webhook-id: 0197734e-7000-7abc-8def-0123456789ab-1' \\
      --header 'webhook-timestamp: 1750000000' \\
      --header 'webhook-signature: v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4='
  cat body.json | duetime verify --secret-file whsec.txt --header 'X-Timer-Signature: 8c1f...'
  duetime verify body.json --at 2025-06-15T15:06:40Z --header ...     one that was kept

The secrets are in the variable {VARIABLE}, with commas between them, or in a file: other users of
a machine can see the arguments of a command. The body must be byte for byte what arrived.

webhook-signature is checked with webhook-id and webhook-timestamp, as in Standard Webhooks, and
X-Timer-Signature with the body alone. If both are given, both must hold.

exit codes:
  0  it is genuine
  1  it is not, or too old, or too new; what is wrong is on standard error
  2  wrong usage: no secret, no body, or no signature
  130  interrupted""",
    )
    parser.add_argument(
        "body",
        nargs="?",
        default=STDIN,
        metavar="BODY",
        help="the file with it (default: -, stdin)",
    )
    parser.add_argument(
        "--header",
        dest="headers",
        type=header,
        action="append",
        default=[],
        metavar="'NAME: VALUE'",
        help="a header that came with it; may be repeated, others than those named do no harm",
    )
    parser.add_argument(
        "--secret-file",
        metavar="FILE",
        help=f"where the secrets are, one on a line (default: those in {VARIABLE})",
    )
    parser.add_argument(
        "--tolerance",
        type=duration,
        default="5m",
        metavar="DURATION",
        help="how old, or how far ahead, it may be (default: %(default)s)",
    )
    parser.add_argument(
        "--at", metavar="TIME", help="when it arrived, in RFC 3339 (default: just now)"
    )


def _verify(args: argparse.Namespace) -> int:
    names = {name.lower() for name, _ in args.headers}
    if not names & {webhooks.SIGNATURE, webhooks.BODY_SIGNATURE}:
        raise ConfigurationError(
            f"--header: must give {webhooks.SIGNATURE} or {webhooks.BODY_SIGNATURE}"
        )
    secrets = _secrets(args)
    now = _at(args.at)
    body = _body(args.body)
    told = []
    if webhooks.SIGNATURE in names:
        tolerance = parse_duration(args.tolerance) / 1000
        verified = webhooks.verify(body, args.headers, secrets, tolerance=tolerance, now=now)
        told.append(f"{verified.id}, sent at {to_rfc3339(1000 * verified.timestamp)}")
    if webhooks.BODY_SIGNATURE in names:
        webhooks.verify_body_signature(body, args.headers, secrets)
        told.append("the body is what was signed")
    Screen().line(f"Genuine: {printable('; '.join(told))}.")
    return Exit.OK


def _secrets(args: argparse.Namespace) -> list[str]:
    if args.secret_file:
        if args.secret_file == args.body == STDIN:
            raise ConfigurationError("--secret-file: standard input is the body already")
        return secrets_in_file(args.secret_file)
    secrets = checked(os.environ.get(VARIABLE, ""), VARIABLE)
    if not secrets:
        raise ConfigurationError(
            f"{VARIABLE}: is not set; set it, or pass the file of the secret with --secret-file"
        )
    return secrets


def _at(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        return to_time(text, "--at") / 1000
    except InvalidRequest as error:
        raise ConfigurationError(str(error)) from None


def _body(path: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if path == STDIN else Path(path).read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}") from None
