"""The address of a table: every option, and what is wrong with it in words."""

import pytest

from duetime.errors import ConfigurationError
from duetime.stores.dynamodb.address import Address, Units
from duetime.stores.dynamodb.signing import Credentials


def test_the_least():
    """A region and a table are enough: the rest is AWS's own."""
    address = Address.parse("dynamodb://eu-central-1/duetime")
    assert address == Address(
        "eu-central-1", "duetime", "https://dynamodb.eu-central-1.amazonaws.com"
    )


def test_regions_of_china_have_another_domain():
    """Their endpoint ends differently."""
    address = Address.parse("dynamodb://cn-north-1/duetime")
    assert address.endpoint == "https://dynamodb.cn-north-1.amazonaws.com.cn"


def test_every_option():
    """Keys, endpoint, connections and units may all be in the URL."""
    address = Address.parse(
        "dynamodb://key:s%2Fecr%40t@local/a.table-1_X?endpoint=http://127.0.0.1:8000/"
        "&pool_size=7&read_units=5&write_units=9"
    )
    assert address == Address(
        "local",
        "a.table-1_X",
        "http://127.0.0.1:8000",
        Credentials("key", "s/ecr@t"),
        None,
        7,
        Units(5, 9),
    )


def test_a_profile():
    """A profile of AWS's tools can be named."""
    assert Address.parse("dynamodb://local/table?profile=work").profile == "work"


def test_the_url_wins_over_the_setting():
    """What is said in the URL counts more than what is said beside it."""
    assert Address.parse("dynamodb://local/table", pool_size=9).pool_size == 9
    assert Address.parse("dynamodb://local/table?pool_size=3", pool_size=9).pool_size == 3


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("dynamodb:///table", "must name a region"),
        ("dynamodb://eu_1/table", "must name a region"),
        ("dynamodb://local", "must name a table"),
        ("dynamodb://local/ab", "must name a table"),
        ("dynamodb://local/a/b", "must name a table"),
        ("dynamodb://local/table?colour=red", "colour: no such option"),
        ("dynamodb://local/table?pool_size=1", "pool_size: must be from 2 to 1000, not '1'"),
        ("dynamodb://local/table?pool_size=x", "pool_size: must be from 2"),
        ("dynamodb://local/table?read_units=5", "read_units: give both"),
        ("dynamodb://local/table?write_units=5", "write_units: give both"),
        ("dynamodb://local/table?read_units=0&write_units=1", "read_units: must be from 1"),
        ("dynamodb://local/table?read_units=1&write_units=x", "write_units: must be from 1"),
        ("dynamodb://local/table?endpoint=ftp://a", "endpoint: must be http://host:port"),
        ("dynamodb://local/table?endpoint=http://a/path", "endpoint: must be"),
        ("dynamodb://local/table?endpoint=http://a:b", "endpoint: must be"),
        ("dynamodb://local/table?endpoint=http://a b:1", "endpoint: must be"),
        ("dynamodb://local/table?endpoint=http://u:topsecret@a:1", "endpoint: must be"),
        ("dynamodb://ke%0Ay:topsecret@local/table", "must be of visible ASCII"),
        ("dynamodb://key:top%20secret@local/table", "must be of visible ASCII"),
        ("dynamodb://key:topsecret@local/table?profile=p", "profile: cannot be given"),
        ("dynamodb://key@local/table", "must have both keys or none"),
        ("dynamodb://:topsecret@local/table", "must have both keys or none"),
        ("dynamodb://key:topsecret@local:80/table", "looks like"),
        ("dynamodb://key:top@secret@local/table", "looks like"),
        ("dynamodb://key:top/secret@local/table", "looks like"),
        ("dynamodb://key:top#secret@local/table", "looks like"),
    ],
)
def test_what_is_wrong_is_named(url, message):
    """The message names the option, and never shows a part of the secret."""
    with pytest.raises(ConfigurationError, match=message) as caught:
        Address.parse(url)
    assert "secret" not in str(caught.value).replace("secret_key", "")


def test_keys_are_never_shown():
    """Neither the address nor the keys tell them when they are printed."""
    address = Address.parse("dynamodb://visible:topsecret@local/table")
    assert "topsecret" not in repr(address)
    assert "visible" not in repr(address)
