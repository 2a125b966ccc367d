"""Loading: every setting is looked for in all places, read and checked."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from duetime.config.dotenv import DotEnv, read_dotenv
from duetime.config.nats import contradictions_of_nats, nats_from_parts
from duetime.config.pg import database_from_pg
from duetime.config.settings import Settings
from duetime.config.source import Source
from duetime.config.table import EVERY, MAKE_A_KEY, TABLE, Setting
from duetime.errors import ConfigurationError


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
        database_from_pg(written, problems)
    if "NATS_URL" not in written:
        nats_from_parts(written, problems)
    values: dict[str, Any] = {}
    for setting in TABLE:
        default = (defaults or {}).get(setting.env, setting.default)
        source = written.get(setting.env, Source(default, setting.env))
        values[setting.field] = source.read(setting, problems)
        if setting.env in required and not source.text:
            problems.append(_missing(setting))
    if not problems:
        problems += _contradictions(values)
    if problems:
        raise ConfigurationError(_report(problems))
    return Settings(**values)


def _contradictions(values: Mapping[str, Any]) -> list[str]:
    """What is wrong with settings that are right each by itself."""
    problems = []
    if values["max_batch_bytes"] < values["max_body_bytes"]:
        problems.append("MAX_BATCH_BYTES: must be at least MAX_BODY_BYTES; raise the one, or lower")
    return problems + contradictions_of_nats(values)


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


def _missing(setting: Setting) -> str:
    how = f", for example one made by: {MAKE_A_KEY}" if setting.env == "API_KEY" else ""
    return f"{setting.env}: is not set; set it in the environment or in .env{how}"


def _report(problems: list[str]) -> str:
    if len(problems) == 1:
        return problems[0]
    return "\n  ".join([f"{len(problems)} settings are wrong:", *problems])
