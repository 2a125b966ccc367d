"""The address of a MySQL database: what a URL says, and what is wrong with one."""

import ssl

import pytest

from duetime.errors import ConfigurationError
from duetime.stores.mysql.address import EXAMPLE, Address
from duetime.stores.opening import open_store
from tests.servers.certificates import AUTHORITY

HERE = "mysql://ann:s3cret@db.example:3307/timers"


def test_a_plain_url_has_defaults():
    """Nothing but where the database is needs to be said."""
    address = Address.parse("mysql://ann:s3cret@db.example/timers")
    assert address == ("db.example", 3306, "ann", "s3cret", "timers", 10, None)
    assert Address.parse(HERE).port == 3307


def test_all_schemes_are_the_same():
    """Which of the family it is, the server says."""
    for scheme in ("mariadb", "tidb"):
        assert Address.parse(HERE.replace("mysql:", f"{scheme}:")) == Address.parse(HERE)


def test_the_url_wins_over_what_is_given_beside_it():
    """What is said beside it counts where the URL is silent."""
    assert Address.parse(HERE, pool_size=7).pool_size == 7
    assert Address.parse(f"{HERE}?pool_size=8", pool_size=7).pool_size == 8


def test_a_user_and_a_password_may_hold_anything_that_is_escaped():
    """The driver gets what was meant."""
    address = Address.parse("mysql://a%40b:p%40%2F%3F%23%25%3A%20%2B@h/d")
    assert (address.user, address.password) == ("a@b", "p@/?#%: +")


def test_it_does_not_show_its_password():
    """Not even where somebody prints it."""
    assert "s3cret" not in f"{Address.parse(HERE)!r} {Address.parse(HERE)}"


@pytest.mark.parametrize(
    ("query", "checks", "checks_name"),
    [
        ("ssl_mode=required", ssl.CERT_NONE, False),
        ("ssl_mode=verify_ca", ssl.CERT_REQUIRED, False),
        ("ssl_mode=verify_identity", ssl.CERT_REQUIRED, True),
        (f"ssl_ca={AUTHORITY}", ssl.CERT_REQUIRED, True),
        (f"ssl_ca={AUTHORITY}&ssl_mode=verify_ca", ssl.CERT_REQUIRED, False),
    ],
)
def test_tls_has_the_modes_that_mysql_knows(query, checks, checks_name):
    """Whoever names an authority wants the server to prove who it is."""
    tls = Address.parse(f"{HERE}?{query}").tls
    assert (tls.verify_mode, tls.check_hostname) == (checks, checks_name)


def test_without_an_option_there_is_no_tls():
    """Nor if it is switched off."""
    assert Address.parse(HERE).tls is None
    assert Address.parse(f"{HERE}?ssl_mode=disabled").tls is None


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("pool_size=1", "pool_size: must be from 2 to 1000, not '1'"),
        ("pool_size=1001", "pool_size"),
        ("pool_size=-2", "pool_size"),
        ("pool_size=many", "pool_size"),
        ("pool_size=%D9%A3", "pool_size"),
        (f"pool_size={'9' * 5000}", "pool_size"),
        ("poolsize=3", r"poolsize: no such option .*pool_size"),
        ("schema=mine", "schema: no such option"),
        ("ssl_mode=VERIFY", "ssl_mode: must be one of disabled, required"),
        ("ssl_ca=/no/such.pem", "ssl_ca: there is no file '/no/such.pem'"),
        ("ssl_cert=/no/such.pem&ssl_mode=required", "ssl_cert: there is no file"),
        ("ssl_key=/no/such.pem&ssl_mode=required", "ssl_key: there is no file"),
        (f"ssl_cert={AUTHORITY}", "ssl_cert: has no meaning"),
        (f"ssl_mode=required&ssl_cert={AUTHORITY}", "cannot be used"),
    ],
)
def test_a_wrong_option_is_named(query, message):
    """What is wrong is told at once, with what would be right."""
    with pytest.raises(ConfigurationError, match=message) as refused:
        open_store(f"{HERE}?{query}")
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize("url", ["mysql://ann:s3cret@db.example", f"{HERE}/more"])
def test_a_url_names_one_database(url):
    """It is told how."""
    with pytest.raises(ConfigurationError, match="names one database, like") as refused:
        Address.parse(url)
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize(
    "url",
    [
        "mysql://ann:pass/cret@db.example/timers",
        "mysql://ann:12/cret@db.example/timers",
        "mysql://ann:pass?cret@db.example/timers",
        "mysql://ann:pass?cret=@db.example/timers",
        "mysql://ann:pass#cret@db.example/timers",
        "mysql://ann:pass@cret@db.example/timers",
        "mysql://ann:pass[cret@db.example/timers",
        "mysql://ann:cret@db.example:port/timers",
        "mysql://ann:cret@db.example:70000/timers",
        "mysql://ann:cret@one.example,two.example/timers",
        "mysql://ann:cret@[::1/timers",
    ],
)
def test_a_url_that_falls_apart_is_not_repeated(url):
    """A password that was not escaped ends somewhere in its middle: no part of it is told."""
    with pytest.raises(ConfigurationError, match="a MySQL URL looks like") as refused:
        Address.parse(url)
    said = str(refused.value).replace(EXAMPLE, "")
    assert "cret" not in said
    assert "pass" not in said.replace("user or password", "")
