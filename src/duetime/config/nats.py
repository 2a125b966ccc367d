"""The NATS_* variables: those of a single server make a NATS_URL, and none stands for nothing."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from duetime.config.source import Source
from duetime.config.table import NATS_TABLE

_FOR_SERVERS = (
    "NATS_TOKEN",
    "NATS_CREDS",
    "NATS_NKEY_SEED",
    "NATS_TLS_CA",
    "NATS_TLS_CERT",
    "NATS_TLS_KEY",
)


def nats_from_parts(written: dict[str, Source], problems: list[str]) -> None:
    """Where NATS_HOST is set, make it and the others into a NATS_URL."""
    given = [setting for setting in NATS_TABLE if setting.env in written]
    if not given:
        return
    if "NATS_HOST" not in written:
        problems.append(
            f"NATS_HOST: is not set, but {given[0].env} is; set it, or NATS_URL instead"
        )
        return
    parts: dict[str, str] = {}
    count = len(problems)
    for setting in NATS_TABLE:
        source = written.get(setting.env, Source(setting.default, setting.env))
        value = source.read(setting, problems)
        is_host = setting.env == "NATS_HOST"  # which may be an IPv6 address in brackets
        parts[setting.env] = (
            "" if value is None else quote(str(value), safe=":[]" if is_host else "")
        )
    if len(problems) > count:
        return
    user, password = parts["NATS_USER"], parts["NATS_PASSWORD"]
    if password and not user:
        problems.append("NATS_USER: is not set, but NATS_PASSWORD is; a token goes into NATS_TOKEN")
        return
    who = f"{user}:{password}@" if user else ""
    url = f"nats://{who}{parts['NATS_HOST']}:{parts['NATS_PORT']}"
    written["NATS_URL"] = Source(url, "NATS_*")


def contradictions_of_nats(values: Mapping[str, Any]) -> list[str]:
    """What is wrong with settings that are right each by itself: whoever sets one means it."""
    problems = []
    if not values["nats_url"]:
        idle = [name for name in _FOR_SERVERS if values[name.lower()]]
        problems += [f"{name}: needs NATS_URL, the servers that it is for" for name in idle]
        if values["nats_commands"] != "off":
            problems.append("NATS_COMMANDS: needs NATS_URL, the servers that commands come from")
    stream = values["commands_stream"]
    if stream and values["nats_commands"] == "off":
        problems.append("COMMANDS_STREAM: needs NATS_COMMANDS, which says who may command")
    if stream and stream == values["events_stream"]:
        problems.append(
            f"COMMANDS_STREAM: must be another stream than EVENTS_STREAM, not {stream!r}"
        )
    return problems
