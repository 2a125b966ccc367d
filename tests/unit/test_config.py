"""Settings: where they come from, what is refused, and what is never told."""

from pathlib import Path

import pytest

from duetime.config import Settings, load_settings, without_password
from duetime.config.reference import in_docs, settings_table
from duetime.config.table import PG_OPTIONS, PG_TABLE, TABLE
from duetime.errors import ConfigurationError

KEY = "k" * 40
DOCS = Path(__file__).parents[2] / "docs" / "configuration.md"
PG = {
    "PG_HOST": "db",
    "PG_PORT": "5433",
    "PG_USER": "timer",
    "PG_PASSWORD": "p@ss:/word",
    "PG_DB_NAME": "timers",
}


def problems(flags=None, env=None, dotenv=None, **options) -> str:
    with pytest.raises(ConfigurationError) as caught:
        load_settings(flags or {}, env or {}, dotenv, **options)
    return str(caught.value)


def test_the_defaults_are_those_of_the_table():
    """With nothing set, every setting has the value that the table shows."""
    settings = load_settings({}, {})
    assert settings.database_url == "sqlite:///data/duetime.db"
    assert (settings.host, settings.port) == ("0.0.0.0", 8080)
    assert settings.api_key is None
    assert settings.retention == 30 * 86_400_000
    assert settings.max_body_bytes == 1024 * 1024
    assert settings.egress_allow == settings.signing_secrets == ()


def test_the_table_and_the_struct_name_the_same_fields():
    """No setting is in one of them only."""
    assert tuple(setting.field for setting in TABLE) == Settings.__struct_fields__


def test_flags_win_over_environment_over_dotenv(tmp_path):
    """The strongest place that says something decides."""
    dotenv = tmp_path / ".env"
    dotenv.write_text("PORT=1001\nLOG_LEVEL=debug\nMAX_IN_FLIGHT=7\n")
    settings = load_settings({"port": "1003"}, {"PORT": "1002", "LOG_LEVEL": "error"}, dotenv)
    assert (settings.port, settings.log_level, settings.max_in_flight) == (1003, "error", 7)


def test_an_empty_variable_is_not_set():
    """Compose passes on empty variables: they mean the default."""
    assert load_settings({}, {"PORT": "", "RETENTION": "  "}).port == 8080


def test_a_missing_dotenv_is_fine(tmp_path):
    """The file need not be there."""
    assert load_settings({}, {}, tmp_path / ".env").port == 8080


def test_the_callers_defaults_replace_the_tables():
    """Dev listens on loopback, unless told otherwise."""
    assert load_settings({}, {}, defaults={"HOST": "127.0.0.1"}).host == "127.0.0.1"
    assert load_settings({}, {"HOST": "::"}, defaults={"HOST": "127.0.0.1"}).host == "::"


def test_everything_wrong_is_told_at_once(tmp_path):
    """One start shows every mistake, by the name under which it was made."""
    dotenv = tmp_path / ".env"
    dotenv.write_text("LOG_FORMAT=xml\nnot a setting\n")
    message = problems({"port": "http"}, {"CLAIM_TTL": "soon", "MAX_IN_FLIGHT": "0"}, dotenv)
    assert message.splitlines()[0] == "5 settings are wrong:"
    assert f"{dotenv}, line 2: write it as NAME=value" in message
    assert "--port: must be a whole number from 1 to 65535, not 'http'" in message
    assert f"LOG_FORMAT (in {dotenv}): must be one of text, json, not 'xml'" in message
    assert "CLAIM_TTL: must be a duration such as" in message
    assert "MAX_IN_FLIGHT: must be a whole number from 1" in message


def test_serve_without_a_key_says_how_to_make_one():
    """A required setting that is missing is told with what to do."""
    message = problems(required=["API_KEY"])
    assert message.startswith("API_KEY: is not set")
    assert "secrets.token_urlsafe(32)" in message


@pytest.mark.promise("no-secret")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("API_KEY", "hunter2"),
        ("API_KEY", "hunter2 " * 5),
        ("SIGNING_SECRETS", "hunter2"),
        ("SIGNING_SECRETS", "whsec_" + "A" * 32 + ",whsec_hunter2"),
        ("SECRETS_KEY", "hunter2"),
        ("SECRETS_KEY", "A" * 43 + "=,hunter2"),
        ("SECRETS_KEY", "hunter2hunter2hunter2hunter2hunter2hunter2A=," * 2),
        ("DATABASE_URL", "user:hunter2@host"),
        ("EGRESS_PROXY", "socks5://user:hunter2@host:1080"),
        ("EGRESS_PROXY", "http://user:hunter2@host:3128/path"),
    ],
)
def test_a_secret_is_never_repeated(name, value):
    """A wrong secret is named, not shown."""
    message = problems(env={name: value})
    assert message.startswith(name)
    assert "hunter2" not in message


@pytest.mark.promise("no-secret")
def test_a_broken_dotenv_line_is_not_repeated(tmp_path):
    """Half a secret on a broken line stays in its file."""
    dotenv = tmp_path / ".env"
    dotenv.write_text('API_KEY="hunter2\n')
    assert "hunter2" not in problems(dotenv=dotenv)


@pytest.mark.promise("no-secret")
def test_the_secrets_are_known():
    """Whoever makes another setting a secret sees to it that its repr does not show it."""
    secrets = {setting.field for setting in TABLE if setting.is_secret}
    assert secrets == {
        "api_key",
        "database_url",
        "egress_proxy",
        "nats_token",
        "nats_url",
        "signing_secrets",
        "secrets_key",
    }


@pytest.mark.promise("no-secret")
def test_secrets_are_not_in_the_repr():
    """Settings can be logged, for their repr shows no secret."""
    secret = "whsec_" + "A" * 32
    proxy = "http://user:hunter2@proxy:3128"
    seals = "B" * 43 + "="
    env = {
        "API_KEY": KEY,
        "SIGNING_SECRETS": secret,
        "SECRETS_KEY": seals,
        "EGRESS_PROXY": proxy,
        **PG,
    }
    settings = load_settings({}, env)
    assert settings.signing_secrets == (secret,)
    assert settings.secrets_key == (seals,)
    assert settings.egress_proxy == proxy
    for hidden in (KEY, secret, seals, "hunter2", "p%40ss"):
        assert hidden not in repr(settings)
    assert "timer:***@db:5433/timers" in repr(settings)


@pytest.mark.promise("no-secret")
@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("sqlite:///data/duetime.db", "sqlite:///data/duetime.db"),
        ("postgresql://u:p@ss@h/d", "postgresql://u:***@h/d"),
        ("mysql://u@h/d?password=x&a=1", "mysql://u@h/d?password=***&a=1"),
        ("mongodb+srv://u:p@h1,h2/d", "mongodb+srv://u:***@h1,h2/d"),
        ("cassandra://u:p@h1:9042,h2:9042/k", "cassandra://u:***@h1:9042,h2:9042/k"),
        (
            "dynamodb://eu/t?secret_key=x&session_token=y",
            "dynamodb://eu/t?secret_key=***&session_token=***",
        ),
        ("rediss://:p@h:6379/0", "rediss://:***@h:6379/0"),
    ],
)
def test_a_database_url_is_shown_without_its_password(url, shown):
    """Where timers are stored may be told, how to get in may not."""
    assert without_password(url) == shown


def test_a_store_in_memory_can_be_named():
    """A URL may end with its scheme."""
    assert load_settings({}, {"DATABASE_URL": "memory://"}).database_url == "memory://"


def test_pg_variables_make_a_database_url():
    """PG_* work as in the platform that Duetime replaces, percent-encoded."""
    assert load_settings({}, PG).database_url == (
        "postgresql://timer:p%40ss%3A%2Fword@db:5433/timers"
    )


def test_pg_options_become_options_of_the_url():
    """TLS is set up by variables too; a wrong word is told."""
    env = PG | {"PG_SSLMODE": "verify-full", "PG_SSLROOTCERT": "/etc/ca & co.pem"}
    assert load_settings({}, env).database_url.endswith(
        "/timers?sslmode=verify-full&sslrootcert=%2Fetc%2Fca%20%26%20co.pem"
    )
    assert "PG_SSLMODE: must be one of disable" in problems(env=PG | {"PG_SSLMODE": "maybe"})


def test_pg_port_has_a_default():
    """PostgreSQL's own port need not be named."""
    env = {name: value for name, value in PG.items() if name != "PG_PORT"}
    assert "@db:5432/" in load_settings({}, env).database_url


def test_incomplete_pg_variables_name_what_is_missing():
    """Half a database is a mistake, not a reason to use SQLite."""
    message = problems(env={"PG_HOST": "db", "PG_PASSWORD": "hunter2"})
    assert "PG_USER: is not set" in message
    assert "PG_DB_NAME: is not set" in message
    assert "hunter2" not in message


def test_database_url_wins_over_pg_variables():
    """The whole address decides where both are set."""
    env = {"DATABASE_URL": "sqlite:///other.db", **PG}
    assert load_settings({}, env).database_url == "sqlite:///other.db"


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("RETENTION", "never", None),
        ("RETENTION", "12h", 43_200_000),
        ("MAX_BODY_BYTES", "2048", 2048),
        ("MAX_BODY_BYTES", "512 KiB", 512 * 1024),
        ("MIN_DELAY", "5s", 5000),
        ("LOG_LEVEL", "DEBUG", "debug"),
        ("EGRESS_ALLOW", "10.0.0.0/8, *.internal,", ("10.0.0.0/8", "*.internal")),
        ("TRUSTED_PROXIES", "10.0.0.0/8, ::1", ("10.0.0.0/8", "::1")),
    ],
)
def test_values_are_read_as_people_write_them(name, value, expected):
    """Durations, sizes, lists and words are read as people write them."""
    assert getattr(load_settings({}, {name: value}), name.lower()) == expected


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("RETENTION", "0s"),
        ("RETENTION", "always"),
        ("MAX_BODY_BYTES", "1MB"),
        ("MAX_BODY_BYTES", "1"),
        ("MAX_BODY_BYTES", "9MiB"),
        ("PORT", "65536"),
        ("PORT", "٨٠"),
        ("EGRESS_ALLOW", "10.0.0.0/8 192.168.0.0/16"),
        ("TRUSTED_PROXIES", "10.0.0.1/8"),
        ("TRUSTED_PROXIES", "balancer.internal"),
    ],
)
def test_values_that_cannot_be_meant_are_refused(name, value):
    """Each with its name and with what was found."""
    message = problems(env={name: value})
    assert message.startswith(f"{name}: must be")
    assert repr(value) in message


def test_a_batch_may_be_as_large_as_a_body():
    """Limits that contradict each other are refused."""
    env = {"MAX_BODY_BYTES": "2MiB", "MAX_BATCH_BYTES": "1MiB"}
    assert problems(env=env).startswith("MAX_BATCH_BYTES")


def test_commands_need_nats_and_somebody_who_may():
    """Commands without servers to come from, or a stream that nobody may fill, are refused."""
    assert problems(env={"NATS_COMMANDS": "keys"}).startswith("NATS_COMMANDS: needs NATS_URL")
    without = problems(env={"NATS_URL": "nats://nats", "COMMANDS_STREAM": "COMMANDS"})
    assert without.startswith("COMMANDS_STREAM: needs NATS_COMMANDS")


def test_secrets_have_no_flag():
    """The arguments of a process are for all to read."""
    hidden = {setting.env for setting in (*TABLE, *PG_TABLE, *PG_OPTIONS) if setting.flag is None}
    assert {"API_KEY", "SIGNING_SECRETS", "SECRETS_KEY", "PG_PASSWORD"} <= hidden


def test_the_documented_table_is_the_table():
    """docs/configuration.md cannot disagree; python -m duetime.config.reference writes it."""
    assert in_docs(DOCS.read_text()) == settings_table()
