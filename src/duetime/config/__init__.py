"""One frozen ``Settings``, and the one table that parsing, ``--help`` and the docs come from.

A flag wins over the environment, and the environment over the .env file. Everything is checked
at the start, and all that is wrong is told at once. A value that may be secret is never repeated.
"""

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

import msgspec

from duetime.clock import Millis
from duetime.config.dotenv import DotEnv, read_dotenv
from duetime.config.table import EVERY, MAKE_A_KEY, PG_OPTIONS, PG_TABLE, TABLE, Setting
from duetime.errors import ConfigurationError


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How a node runs. Durations are in milliseconds."""

    database_url: str
    database_schema: str
    database_pool_size: int
    num_shards: int | None  # None: as many as suit the store
    api_key: str | None
    host: str
    port: int
    workers: int
    log_level: Literal["debug", "info", "warning", "error"]
    log_format: Literal["text", "json"]
    sqlite_synchronous: Literal["full", "normal", "off"]
    min_delay: Millis
    egress_allow: tuple[str, ...]
    signing_secrets: tuple[str, ...]
    max_in_flight: int
    target_concurrency: int
    claim_ttl: Millis
    poll_interval: Millis
    retention: Millis | None  # None: finished timers are kept for ever
    drain_timeout: Millis
    max_body_bytes: int
    max_batch_bytes: int

    def __repr__(self) -> str:
        """Show every setting that is no secret."""
        shown = {name: getattr(self, name) for name in self.__struct_fields__}
        shown["api_key"] = self.api_key and "***"
        shown["signing_secrets"] = ("***",) * len(self.signing_secrets)
        shown["database_url"] = without_password(self.database_url)
        return f"Settings({', '.join(f'{name}={value!r}' for name, value in shown.items())})"


class Source(NamedTuple):
    """A value as it was written, and what to call the place where it was."""

    text: str
    place: str


def load_settings(
    flags: Mapping[str, Any],
    env: Mapping[str, str],
    dotenv: Path | None = None,
    *,
    defaults: Mapping[str, str] | None = None,
    required: Collection[str] = (),
) -> Settings:
    """Read and check every setting; ConfigurationError tells all that is wrong with them.

    ``flags`` are by field name, None where one was not given. ``defaults`` replace the table's,
    and ``required`` names those that must be set; both are by the variable's name.
    """
    written, problems = _gather(flags, env, dotenv)
    if "DATABASE_URL" not in written:
        _database_from_pg(written, problems)
    values: dict[str, Any] = {}
    for setting in TABLE:
        default = (defaults or {}).get(setting.env, setting.default)
        source = written.get(setting.env, Source(default, setting.env))
        values[setting.field] = _read(setting, source, problems)
        if setting.env in required and not source.text:
            problems.append(_missing(setting))
    if not problems and values["max_batch_bytes"] < values["max_body_bytes"]:
        problems.append("MAX_BATCH_BYTES: must be at least MAX_BODY_BYTES; raise the one, or lower")
    if problems:
        raise ConfigurationError(_report(problems))
    return Settings(**values)


def without_password(database_url: str) -> str:
    """The same address, fit to be shown."""
    shown = re.sub(r"(?<=://)([^:/?#]*):.*@", r"\1:***@", database_url)
    return re.sub(r"(?i)((?:password|secret\w*|token\w*)=)[^&]*", r"\1***", shown)


def _gather(
    flags: Mapping[str, Any], env: Mapping[str, str], dotenv: Path | None
) -> tuple[dict[str, Source], list[str]]:
    """What was written for each variable, in the strongest place; an empty text is not set."""
    from_file = read_dotenv(dotenv) if dotenv else DotEnv({}, [])
    written: dict[str, Source] = {}
    for setting in EVERY:
        flag = flags.get(setting.field) if setting.flag else None
        places = (
            Source("" if flag is None else str(flag), setting.flag or setting.env),
            Source(env.get(setting.env, ""), setting.env),
            Source(from_file.values.get(setting.env, ""), f"{setting.env} (in {dotenv})"),
        )
        if source := next((each for each in places if each.text.strip()), None):
            written[setting.env] = source
    return written, from_file.problems


def _read(setting: Setting, source: Source, problems: list[str]) -> Any:
    """The value, or None and one problem more."""
    if not source.text:
        return setting.empty
    try:
        return setting.reads(source.text.strip())
    except ValueError as error:
        found = "" if setting.is_secret else f", not {source.text[:60]!r}"
        problems.append(f"{source.place}: {error}{found}")
        return None


def _missing(setting: Setting) -> str:
    how = f", for example one made by: {MAKE_A_KEY}" if setting.env == "API_KEY" else ""
    return f"{setting.env}: is not set; set it in the environment or in .env{how}"


def _database_from_pg(written: dict[str, Source], problems: list[str]) -> None:
    """Where any PG_* is set, make them into a DATABASE_URL."""
    if not any(setting.env in written for setting in (*PG_TABLE, *PG_OPTIONS)):
        return
    parts: dict[str, str] = {}
    count = len(problems)
    for setting in PG_TABLE:
        source = written.get(setting.env, Source(setting.default, setting.env))
        if source.text:
            is_host = setting.env == "PG_HOST"  # which may be an IPv6 address in brackets
            value = str(_read(setting, source, problems))
            parts[setting.env] = quote(value, safe=":[]" if is_host else "")
        else:
            problems.append(
                f"{setting.env}: is not set, but other PG_* variables are; "
                "set all of them, or DATABASE_URL instead"
            )
    options = [
        f"{setting.field.removeprefix('pg_')}="
        + quote(str(_read(setting, written[setting.env], problems)), safe="")
        for setting in PG_OPTIONS
        if setting.env in written
    ]
    if len(problems) == count:
        url = "postgresql://{PG_USER}:{PG_PASSWORD}@{PG_HOST}:{PG_PORT}/{PG_DB_NAME}"
        query = f"?{'&'.join(options)}" if options else ""
        written["DATABASE_URL"] = Source(url.format(**parts) + query, "PG_*")


def _report(problems: list[str]) -> str:
    if len(problems) == 1:
        return problems[0]
    return "\n  ".join([f"{len(problems)} settings are wrong:", *problems])
