"""The address of a PostgreSQL database: what a URL says, and what is wrong with one."""

from urllib.parse import urlencode

import pytest
from asyncpg import connect_utils

from duetime.errors import ConfigurationError
from duetime.stores.opening import open_store
from duetime.stores.postgres import address
from duetime.stores.postgres.address import Address
from tests.servers.certificates import AUTHORITY

HERE = "postgresql://ann:s3cret@db.example:6432/timers"
# What may also be told to the driver beside the address.
_UNSAID = (
    *("host", "port", "user", "password", "passfile", "database", "ssl", "direct_tls"),
    *("service", "servicefile", "server_settings", "target_session_attrs"),
    *("krbsrvname", "gsslib"),
)


def understood(address):
    """What the driver makes of an address: its hosts and ports, and its other parameters."""
    unsaid = dict.fromkeys(_UNSAID)
    return connect_utils._parse_connect_dsn_and_args(dsn=address.dsn, **unsaid)


def test_a_plain_url_has_defaults():
    """Nothing but where the database is needs to be said."""
    address = Address.parse(HERE)
    assert address[1:] == ("duetime", 10, False)
    hosts, rest = understood(address)
    assert hosts == [("db.example", 6432)]
    assert (rest.user, rest.password, rest.database) == ("ann", "s3cret", "timers")
    assert rest.server_settings == {"application_name": "duetime"}


def test_both_schemes_are_the_same():
    """Whatever the tools of a platform write."""
    assert Address.parse(HERE.replace("postgresql:", "postgres:")) == Address.parse(HERE)


def test_options_of_ours_stay_with_us():
    """The driver does not get to see them."""
    address = Address.parse(f"{HERE}?schema=a_1&pool_size=33&pooler=transaction")
    assert address[1:] == ("a_1", 33, True)
    assert address.dsn == f"{HERE}?application_name=duetime"


def test_the_url_wins_over_what_is_given_beside_it():
    """What is said beside it counts where the URL is silent."""
    assert Address.parse(HERE, schema="beside", pool_size=7)[1:3] == ("beside", 7)
    inside = Address.parse(f"{HERE}?schema=inside&pool_size=8", schema="beside", pool_size=7)
    assert inside[1:3] == ("inside", 8)


def test_a_name_of_the_users_own_is_kept():
    """Whoever names the application finds that name in pg_stat_activity."""
    _, rest = understood(Address.parse(f"{HERE}?application_name=billing%20%26%20co"))
    assert rest.server_settings == {"application_name": "billing & co"}


def test_a_password_may_hold_anything_that_is_escaped():
    """The driver gets what was meant."""
    _, rest = understood(Address.parse("postgresql://a%40b:p%40%2F%3F%23%25%3A%20%2B@h/d"))
    assert (rest.user, rest.password) == ("a@b", "p@/?#%: +")


@pytest.mark.parametrize(
    ("url", "hosts"),
    [
        ("postgresql://a,b:1/d", [("a", 5432), ("b", 1)]),
        ("postgresql:///d?host=a,b", [("a", 5432), ("b", 5432)]),
        ("postgresql://[::1]:7,[fe80::1]/d", [("::1", 7), ("fe80::1", 5432)]),
    ],
)
def test_of_several_hosts_the_one_that_takes_writes_is_meant(url, hosts):
    """A standby among them is passed over, unless the URL asks for something else."""
    found, rest = understood(Address.parse(url))
    assert found == hosts
    assert rest.target_session_attrs.value == "read-write"
    sign = "&" if "?" in url else "?"
    _, rest = understood(Address.parse(f"{url}{sign}target_session_attrs=primary"))
    assert rest.target_session_attrs.value == "primary"


@pytest.mark.parametrize("slash", ["", "/"])
def test_a_database_may_be_named_by_an_option(slash):
    """Where the path names none."""
    _, rest = understood(Address.parse(f"postgresql://ann@db.example{slash}?dbname=timers"))
    assert rest.database == "timers"


def test_a_single_host_is_taken_as_it_is():
    """Nothing is asked about it."""
    assert "target_session_attrs" not in Address.parse(HERE).dsn


@pytest.mark.parametrize("option", sorted(address._PASSED_ON - {"options"}))
def test_the_driver_knows_what_is_passed_on(option):
    """None of them ends up as a setting of the session, which the server would refuse."""
    values = {
        "host": "h",
        "port": "1",
        "sslmode": "allow",
        "ssl_min_protocol_version": "TLSv1.2",
        "ssl_max_protocol_version": "TLSv1.3",
        "sslnegotiation": "postgres",
        "gsslib": "gssapi",
        "target_session_attrs": "any",
        **dict.fromkeys(address._FILES, str(AUTHORITY)),
    }
    query = {"sslmode": "disable", option: values.get(option, "x")}
    _, rest = understood(Address.parse(f"{HERE}?{urlencode(query)}"))
    assert set(rest.server_settings) == {"application_name"}


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("schema=Big", "DATABASE_SCHEMA: must be .* not 'Big'"),
        ("schema=pg_mine", "DATABASE_SCHEMA"),
        ("schema=1st", "DATABASE_SCHEMA"),
        ("schema=a-b", "DATABASE_SCHEMA"),
        ("schema=", "DATABASE_SCHEMA"),
        (f"schema={'a' * 49}", "DATABASE_SCHEMA"),
        ("schema=a%3Bdrop", "DATABASE_SCHEMA"),
        ("schema=gr%C3%BCn", "DATABASE_SCHEMA"),
        ("pool_size=1", "pool_size: must be from 2 to 1000, not '1'"),
        ("pool_size=1001", "pool_size"),
        ("pool_size=-2", "pool_size"),
        ("pool_size=many", "pool_size"),
        ("pool_size=%D9%A3", "pool_size"),
        (f"pool_size={'9' * 5000}", "pool_size"),
        ("pooler=session", "pooler: must be transaction or none, not 'session'"),
        ("poolsize=3", "poolsize: no such option .*pool_size"),
        ("hostaddr=127.0.0.1", "hostaddr: no such option"),
        ("port=abc", "port: must be a number"),
        ("port=1,70000", "port: must be a number"),
        ("host=a:b", "host: must be"),
        ("sslrootcert=/no/such.pem", "sslrootcert: there is no file '/no/such.pem'"),
    ],
)
def test_a_wrong_option_is_named(query, message):
    """What is wrong is told at once, with what would be right."""
    with pytest.raises(ConfigurationError, match=message) as refused:
        open_store(f"{HERE}?{query}")
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ann:pass/cret@db.example/timers",
        "postgresql://ann:12/cret@db.example/timers",
        "postgresql://ann:pass?cret@db.example/timers",
        "postgresql://ann:pass?cret=@db.example/timers",
        "postgresql://ann:pass#cret@db.example/timers",
        "postgresql://ann:pass@cret@db.example/timers",
        "postgresql://ann:pass[cret@db.example/timers",
        "postgresql://ann:cret@db.example:port/timers",
        "postgresql://ann:cret@db.example:70000/timers",
        "postgresql://ann:cret@[::1/timers",
    ],
)
def test_a_url_that_falls_apart_is_not_repeated(url):
    """A password that was not escaped ends somewhere in its middle: no part of it is told."""
    with pytest.raises(ConfigurationError, match="a PostgreSQL URL looks like") as refused:
        Address.parse(url)
    said = str(refused.value).replace("postgresql://user:password@host:5432/database", "")
    assert "cret" not in said
    assert "pass" not in said.replace("user or password", "")


@pytest.mark.parametrize("schema", ["duetime", "_", "a" * 48, "pgx_1"])
def test_a_channel_can_be_named_after_every_schema(schema):
    """PostgreSQL cuts names off after 63 bytes."""
    assert Address.parse(HERE, schema=schema).schema == schema
    assert len(f"duetime_{schema}") < 63
