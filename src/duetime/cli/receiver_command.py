"""The command `duetime receiver`: prints each callback that arrives."""

import argparse
import asyncio
from contextlib import suppress
from typing import Any

import msgspec

from duetime.cli.arguments import duration
from duetime.cli.arrival import Arrival, OnArrival
from duetime.cli.commands import Commands, add_command
from duetime.cli.output import Screen, printable
from duetime.cli.receiver import running_receiver
from duetime.clock import to_rfc3339
from duetime.durations import parse_duration
from duetime.errors import ConfigurationError

_LONGEST_BODY = 120
_STATUSES = range(200, 600)


def add_to(commands: Commands) -> None:
    parser = add_command(
        commands,
        "receiver",
        _receiver,
        "Receive callbacks, and print each that arrives",
        """\
examples:
  duetime receiver
  duetime receiver --port 9001 --status 503     see how a failing receiver is tried again
  duetime receiver --delay 2s --json            a slow one, and one line of JSON per callback

Lateness is measured from X-Timer-Due, on this machine's clock. Ctrl-C stops it.""",
    )
    parser.add_argument("--host", default="127.0.0.1", help="(default: %(default)s)")
    parser.add_argument("--port", type=int, default=9000, help="(default: %(default)s)")
    parser.add_argument(
        "--status", type=_status, default=200, help="what to answer (default: %(default)s)"
    )
    parser.add_argument(
        "--delay",
        type=duration,
        default="0s",
        metavar="DURATION",
        help="how long to wait before the answer (default: %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="print one line of JSON per callback")


def printing(
    screen: Screen, *, as_json: bool = False, gone: asyncio.Future[None] | None = None
) -> OnArrival:
    """What prints arrivals, for people or for machines.

    Where nobody reads them any more, ``gone`` is told, and callbacks are answered all the same.
    """

    def on_arrival(arrival: Arrival) -> None:
        try:
            if as_json:
                screen.json(as_data(arrival), on_one_line=True)
            else:
                screen.line(as_line(screen, arrival))
        except OSError as error:
            if gone and not gone.done():
                gone.set_exception(error)

    return on_arrival


def as_line(screen: Screen, arrival: Arrival) -> str:
    """A callback on one line."""
    parts = [
        screen.colour("dim", to_rfc3339(arrival.at)),
        screen.colour("green", arrival.method),
        printable(arrival.path),
    ]
    if arrival.attempt:
        parts.append(f"attempt {printable(arrival.attempt)}")
    if arrival.lateness is not None:
        parts.append(f"{arrival.lateness:+d} ms")
    body = printable(arrival.body.decode("utf-8", "replace"))
    parts.append(body if len(body) <= _LONGEST_BODY else body[: _LONGEST_BODY - 1] + "…")
    return "  ".join(part for part in parts if part)


def as_data(arrival: Arrival) -> dict[str, Any]:
    """A callback with all that it brought."""
    return {
        "at": to_rfc3339(arrival.at),
        "method": arrival.method,
        "path": arrival.path,
        "attempt": arrival.attempt,
        "lateness_ms": arrival.lateness,
        "headers": arrival.headers,
        "body": _body(arrival.body),
    }


def _receiver(args: argparse.Namespace) -> int:
    with suppress(KeyboardInterrupt):
        asyncio.run(_run(args))
    return 0


async def _run(args: argparse.Namespace) -> None:
    screen = Screen()
    gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    on_arrival = printing(screen, as_json=args.json, gone=gone)
    delay = parse_duration(args.delay)
    try:
        listening = running_receiver(
            args.host, args.port, on_arrival, status=args.status, delay=delay
        )
        async with listening as port:
            if not args.json:
                screen.line(f"Receiving callbacks on http://{args.host}:{port}")
            await gone
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        where = f"{args.host}:{args.port}"
        raise ConfigurationError(f"cannot listen on {where}: {error.strerror}") from error


def _status(text: str) -> int:
    if not text.isdigit() or int(text) not in _STATUSES:
        raise argparse.ArgumentTypeError(f"must be an HTTP status from 200 to 599, not {text!r}")
    return int(text)


def _body(body: bytes) -> Any:
    """JSON as JSON, anything else as text, nothing as null."""
    if not body:
        return None
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return body.decode("utf-8", "replace")
