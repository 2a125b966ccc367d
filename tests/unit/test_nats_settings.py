"""How NATS is named: as a list of servers, or by the variables of a single one."""

import pytest

from duetime.config import load_settings
from duetime.errors import ConfigurationError


def problems(**env) -> str:
    with pytest.raises(ConfigurationError) as caught:
        load_settings({}, env)
    return str(caught.value)


def test_there_is_no_nats_unless_somebody_names_it():
    """Nothing of NATS is on by default."""
    settings = load_settings({}, {})
    assert settings.nats_url == ()
    assert (settings.outbox, settings.nats_commands, settings.commands_stream) == (
        "off",
        "off",
        None,
    )


def test_several_servers_are_read():
    """With commas between, with or without a scheme."""
    env = {"NATS_URL": "nats://a:4222, tls://u:p@b:4223,c ,[::1]:4222"}
    assert load_settings({}, env).nats_url == (
        "nats://a:4222",
        "tls://u:p@b:4223",
        "nats://c",
        "nats://[::1]:4222",
    )


@pytest.mark.parametrize(
    ("env", "url"),
    [
        ({"NATS_HOST": "queue"}, "nats://queue:4222"),
        ({"NATS_HOST": "queue", "NATS_USER": "", "NATS_PASSWORD": ""}, "nats://queue:4222"),
        (
            {
                "NATS_HOST": "[::1]",
                "NATS_PORT": "4333",
                "NATS_USER": "a b",
                "NATS_PASSWORD": "p@:/",
            },
            "nats://a%20b:p%40%3A%2F@[::1]:4333",
        ),
    ],
)
def test_nats_variables_make_a_url(env, url):
    """NATS_HOST and the others work as in the platform that Duetime replaces, percent-encoded."""
    assert load_settings({}, env).nats_url == (url,)


def test_nats_url_wins_over_the_parts():
    """The whole address decides where both are set."""
    env = {"NATS_URL": "nats://a", "NATS_HOST": "b"}
    assert load_settings({}, env).nats_url == ("nats://a",)


def test_half_a_server_is_a_mistake():
    """A port without a host is no reason to go without NATS, and a password wants a user."""
    assert problems(NATS_PORT="4222").startswith("NATS_HOST: is not set, but NATS_PORT is")
    message = problems(NATS_HOST="a", NATS_PASSWORD="hunter2")
    assert message.startswith("NATS_USER: is not set")
    assert "hunter2" not in message
    assert problems(NATS_HOST="a", NATS_PORT="http").startswith("NATS_PORT: must be")


@pytest.mark.promise("no-secret")
def test_what_is_shown_of_servers_has_no_secret():
    """What stands before an @ may be a token: nothing of it is shown."""
    env = {"NATS_URL": "nats://hunter2@a:4222,tls://u:hunter2@b", "NATS_TOKEN": "hunter2"}
    shown = repr(load_settings({}, env))
    assert "hunter2" not in shown
    assert "nats_url=('nats://a:4222', 'tls://b')" in shown


@pytest.mark.promise("no-secret")
@pytest.mark.parametrize(
    "url",
    [
        "http://user:hunter2@a",
        "nats://hunter2@a:4222/path",
        "nats://a:4222 nats://hunter2@b",
        "nats://hunter2@",
    ],
)
def test_servers_that_cannot_be_meant_are_refused(url):
    """By their number, and without what they say."""
    message = problems(NATS_URL=url)
    assert message.startswith("NATS_URL: number 1 must be nats://host:port")
    assert "hunter2" not in message


def test_subjects_are_given_to_tenants():
    """Each subject has one tenant; a tenant may have several."""
    env = {"NATS_TENANTS": "orders.timers=acme, shop=acme,b=other"}
    assert load_settings({}, env).nats_tenants == (
        ("orders.timers", "acme"),
        ("shop", "acme"),
        ("b", "other"),
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NATS_TENANTS", "acme"),
        ("NATS_TENANTS", "acme="),
        ("NATS_TENANTS", "=acme"),
        ("NATS_TENANTS", "a.*=acme"),
        ("NATS_TENANTS", "a..b=acme"),
        ("NATS_PREFIX", "due.>"),
        ("NATS_PREFIX", ".due"),
        ("NATS_PREFIX", "due time"),
        ("EVENTS_STREAM", "due.events"),
        ("COMMANDS_STREAM", "a b"),
        ("OUTBOX", "maybe"),
        ("OUTBOX_RETENTION", "1s"),
        ("EVENTS_STREAM_REPLICAS", "6"),
    ],
)
def test_names_that_nats_would_not_take_are_refused(name, value):
    """Each with its name and with what was found."""
    message = problems(**{name: value})
    assert message.startswith(f"{name}: must")
    assert repr(value) in message


@pytest.mark.parametrize(
    "name",
    ["NATS_TOKEN", "NATS_CREDS", "NATS_NKEY_SEED", "NATS_TLS_CA", "NATS_TLS_CERT", "NATS_TLS_KEY"],
)
def test_what_is_for_a_server_wants_one(name):
    """Whoever has something to show to NATS has forgotten to say to whom."""
    message = problems(**{name: "hunter2"})
    assert message == f"{name}: needs NATS_URL, the servers that it is for"


def test_a_stream_of_commands_wants_somebody_who_may_command():
    """But whose subjects are whose can be told to nodes that take none: no timer may use them."""
    env = {"NATS_URL": "nats://a", "NATS_TENANTS": "a=acme"}
    assert load_settings({}, env).nats_tenants == (("a", "acme"),)
    message = problems(**env, COMMANDS_STREAM="X")
    assert message == "COMMANDS_STREAM: needs NATS_COMMANDS, which says who may command"


def test_events_and_commands_have_a_stream_each():
    """One that has done with a command forgets it; events stay."""
    env = {"NATS_URL": "nats://a", "NATS_COMMANDS": "keys", "COMMANDS_STREAM": "DUETIME_EVENTS"}
    expected = "COMMANDS_STREAM: must be another stream than EVENTS_STREAM, not 'DUETIME_EVENTS'"
    assert problems(**env) == expected


def test_a_subject_has_one_tenant():
    """Two tenants on one subject are refused."""
    assert "NATS_TENANTS: has the same subject twice" in problems(NATS_TENANTS="a=x,a=y")
