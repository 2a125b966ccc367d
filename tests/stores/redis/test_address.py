"""The URL of a Redis server, and what is wrong with others."""

import pytest

from duetime.errors import ConfigurationError
from duetime.stores.redis.address import Address


def test_all_that_a_url_may_say():
    """Who, where, which database, and the options."""
    url = "redis://me:p%40ss@db.example:6380/3?prefix=acme.timers&pool_size=4&durability=unchecked"
    assert Address.parse(url, pool_size=7) == Address(
        host="db.example",
        port=6380,
        database=3,
        user="me",
        password="p@ss",
        prefix="acme.timers",
        pool_size=4,
        is_checked=False,
    )


@pytest.mark.parametrize("url", ["redis://localhost", "redis://localhost/"])
def test_most_of_it_may_be_left_out(url):
    """Then the usual port, the first database, and a server that must say how it keeps timers."""
    assert Address.parse(url) == Address(host="localhost")


def test_a_password_needs_no_user():
    """As with `requirepass`."""
    address = Address.parse("redis://:secret@[::1]:1/0", pool_size=7)
    assert (address.user, address.password, address.host) == (None, "secret", "::1")
    assert address.pool_size == 7


def test_tls_has_a_scheme_of_its_own(tmp_path):
    """With the files that it needs."""
    file = tmp_path / "ca.pem"
    file.touch()
    address = Address.parse(f"rediss://host/0?ssl_ca={file}")
    assert address.has_tls
    assert address.ssl_ca == str(file)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("redis://", "a Redis URL looks like redis://user:password@host:6379/0"),
        ("redis://:hunter2@a,b/0", "looks like"),
        ("redis://:hunter2@host/timers", "looks like"),
        ("redis://:hunter2@host:x/0", "looks like"),
        ("redis://:hunter2@host/0?colour=red", "colour: no such option"),
        ("redis://:hunter2@host/0?prefix=a%20b", "prefix: must be"),
        ("redis://:hunter2@host/0?prefix=a:b", "prefix: must be"),
        ("redis://:hunter2@host/0?pool_size=1", "pool_size: must be from 2 to 1000"),
        ("redis://:hunter2@host/0?durability=some", "durability: must be checked or unchecked"),
        ("redis://:hunter2@host/0?ssl_ca=/etc/hosts", "ssl_ca: only a rediss:// URL"),
        ("rediss://:hunter2@host/0?ssl_ca=/no/such", "ssl_ca: there is no file"),
    ],
)
def test_what_is_wrong_is_named(url, words):
    """And never the password."""
    with pytest.raises(ConfigurationError, match=words) as refused:
        Address.parse(url)
    assert "hunter2" not in str(refused.value)
