"""What `duetime dev` shows when it is up: all that is needed for a first timer."""

import json
import shlex

from duetime.client import DEFAULT_URL

_ANY_ADDRESS = {"0.0.0.0", "::", ""}  # noqa: S104 - compared with, not bound to
_PAYLOAD = {"hello": "world"}


def reachable(host: str, port: int) -> str:
    """The address under which this machine reaches a listener."""
    name = "127.0.0.1" if host in _ANY_ADDRESS else host
    return f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"


def banner(
    *, host: str, port: int, api_key: str, receiver_port: int, program: str = "duetime"
) -> str:
    """The text, ready to print; ``program`` is what to type for this command line."""
    url = reachable(host, port)
    callback = f"{reachable('127.0.0.1', receiver_port)}/hello"
    body = {"delay": "5s", "callback": {"type": "http", "url": callback, "payload": _PAYLOAD}}
    curl = _command(
        ["curl", "-sS", f"{url}/timers"],
        ["-H", f"X-API-Key: {api_key}"],
        ["-H", "Content-Type: application/json"],
        ["-d", json.dumps(body)],
    )
    server = [] if url == DEFAULT_URL else ["--server", url]
    create = _command(
        [program, "timer", "create", "--in", "5s", *server],
        ["--url", callback, "--data", json.dumps(_PAYLOAD)],
    )
    return f"""\
Duetime is up.

  API       {url}
  Docs      {url}/docs
  API key   {api_key}
  Receiver  {reachable("127.0.0.1", receiver_port)}  prints every callback below

A timer that is due in 5 seconds:

{curl}

The same with the command line:

{create}

Ctrl-C stops it. Timers stay.
"""


def _command(*lines: list[str]) -> str:
    """A command over several lines, quoted for a shell."""
    return " \\\n    ".join(
        ["  " + shlex.join(lines[0]), *(shlex.join(line) for line in lines[1:])]
    )
