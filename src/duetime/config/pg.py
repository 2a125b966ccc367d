"""The PG_* variables: where DATABASE_URL is not set, they make one."""

from urllib.parse import quote

from duetime.config.source import Source
from duetime.config.table import PG_OPTIONS, PG_TABLE


def database_from_pg(written: dict[str, Source], problems: list[str]) -> None:
    """Where any PG_* is set, make them into a DATABASE_URL."""
    if not any(setting.env in written for setting in (*PG_TABLE, *PG_OPTIONS)):
        return
    parts: dict[str, str] = {}
    count = len(problems)
    for setting in PG_TABLE:
        source = written.get(setting.env, Source(setting.default, setting.env))
        if source.text:
            is_host = setting.env == "PG_HOST"  # which may be an IPv6 address in brackets
            value = str(source.read(setting, problems))
            parts[setting.env] = quote(value, safe=":[]" if is_host else "")
        else:
            problems.append(
                f"{setting.env}: is not set, but other PG_* variables are; "
                "set all of them, or DATABASE_URL instead"
            )
    options = [
        f"{setting.field.removeprefix('pg_')}="
        + quote(str(written[setting.env].read(setting, problems)), safe="")
        for setting in PG_OPTIONS
        if setting.env in written
    ]
    if len(problems) == count:
        url = "postgresql://{PG_USER}:{PG_PASSWORD}@{PG_HOST}:{PG_PORT}/{PG_DB_NAME}"
        query = f"?{'&'.join(options)}" if options else ""
        written["DATABASE_URL"] = Source(url.format(**parts) + query, "PG_*")
