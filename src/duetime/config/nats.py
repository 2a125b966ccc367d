"""The NATS_* variables of a single server: where NATS_URL is not set, they make one."""

from urllib.parse import quote

from duetime.config.source import Source
from duetime.config.table import NATS_TABLE


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
