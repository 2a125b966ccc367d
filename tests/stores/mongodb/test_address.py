"""The address of a MongoDB database: what a URL says, and what is wrong with one."""

from urllib.parse import quote

import pytest
from pymongo.uri_parser import parse_uri

from duetime.errors import ConfigurationError
from duetime.stores.mongodb import address
from duetime.stores.mongodb.address import Address
from duetime.stores.mongodb.store import MongodbStore
from duetime.stores.opening import Options, open_store
from tests.servers.certificates import AUTHORITY

HERE = "mongodb://ann:s3cret@db.example:6432/timers"


def test_a_plain_url_has_defaults():
    """Nothing but where the database is needs to be said."""
    found = Address.parse(HERE)
    assert found[1:] == ("timers", 10)
    said = parse_uri(found.uri)
    assert said["nodelist"] == [("db.example", 6432)]
    assert (said["username"], said["password"], said["database"]) == ("ann", "s3cret", "timers")
    assert said["options"] == {"appname": "duetime"}


def test_without_a_database_it_is_ours():
    """And the user is looked for where users are."""
    for url in (
        "mongodb://ann:s3cret@h",
        "mongodb://ann:s3cret@h/",
        "mongodb://ann:s3cret@h/?tls=true",
    ):
        found = Address.parse(url)
        assert found.database == "duetime"
        assert parse_uri(found.uri)["database"] is None


def test_the_option_of_ours_stays_with_us():
    """The driver does not get to see it; the URL wins over what is said beside it."""
    found = Address.parse(f"{HERE}?pool_size=33", pool_size=7)
    assert found.pool_size == 33
    assert "pool_size" not in found.uri
    assert Address.parse(HERE, pool_size=7).pool_size == 7


def test_many_hosts():
    """Of the members of a replica set, several may be named."""
    found = Address.parse("mongodb://a,b:1,[::1]:7/d?replicaSet=rs")
    assert parse_uri(found.uri)["nodelist"] == [("a", 27017), ("b", 1), ("::1", 7)]


def test_a_password_may_hold_anything_that_is_escaped():
    """The driver gets what was meant."""
    said = parse_uri(Address.parse("mongodb://a%40b:p%40%2F%3F%23%25%3A%20%2B@h/d").uri)
    assert (said["username"], said["password"]) == ("a@b", "p@/?#%: +")


VALUES = {
    "authMechanism": "SCRAM-SHA-256",
    "authMechanismProperties": "SERVICE_NAME:x",
    "compressors": "zlib",
    "zlibCompressionLevel": "3",
    "directConnection": "true",
    "ssl": "true",
    "tls": "true",
    "srvMaxHosts": "0",
    "srvServiceName": "mongodb",
    "tlsAllowInvalidCertificates": "true",
    "tlsAllowInvalidHostnames": "true",
    "tlsDisableOCSPEndpointCheck": "true",
    "tlsInsecure": "true",
    "tlsCAFile": str(AUTHORITY),
    "tlsCertificateKeyFile": str(AUTHORITY),
    "tlsCRLFile": str(AUTHORITY),
}


@pytest.mark.parametrize("name", address._PASSED_ON)
def test_each_option_reaches_the_driver(name):
    """By whatever case it is written in."""
    value = quote(VALUES.get(name, "some & more"), safe="")
    assert f"{name}={value}" in Address.parse(f"{HERE}?{name.upper()}={value}").uri


def test_what_hosting_services_write_is_fine():
    """It says what is so anyway."""
    found = Address.parse(
        "mongodb+srv://ann:s3cret@c0.example.net/?retryWrites=true&w=majority&journal=true&appName=X"
    )
    assert found.uri == "mongodb+srv://ann:s3cret@c0.example.net/?appName=X"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        (f"{HERE}?w=1", "w: must be majority, or left out"),
        (f"{HERE}?retryWrites=false", "retryWrites: must be true, or left out"),
        (f"{HERE}?journal=false", "journal: must be true"),
        (f"{HERE}?readPreference=secondary", "readPreference: no such option"),
        (f"{HERE}?socketTimeoutMS=5", "socketTimeoutMS: no such option"),
        (f"{HERE}?pool_size=1", "pool_size: must be from 2 to 1000"),
        (f"{HERE}?pool_size=x", "pool_size: must be from 2 to 1000"),
        (f"{HERE}?tlsCAFile=/no/such/file", "tlsCAFile: there is no file '/no/such/file'"),
        ("mongodb://ann:s3cret@h/a.b", "the database of a MongoDB URL"),
        ("mongodb://ann:s3cret@h/a%20b", "the database of a MongoDB URL"),
        ("mongodb://ann:s3cret@h:port/d", "with a number as the port"),
        ("mongodb://ann:s3cret@h:70000/d", "with a number as the port"),
        ("mongodb://ann:s3@cret@h/d", "write @ as %40"),
        ("mongodb://ann:s3#cret@h/d", "# as %23"),
        ("mongodb://ann:s3/cret@h/d", "/ as %2F"),
        ("mongodb://ann:s3:cret@h/d", ": as %3A"),
        ("mongodb://", "looks like mongodb://user"),
        ("mongodb://[::1/d", "looks like mongodb://user"),
        ("mongodb+srv://ann:s3cret@a,b/d", "names one host"),
        ("mongodb+srv://ann:s3cret@a:1/d", "names one host"),
    ],
)
def test_what_is_wrong_is_named(url, said):
    """And the password is never repeated, not even in part."""
    with pytest.raises(ConfigurationError) as refused:
        Address.parse(url)
    assert said in str(refused.value)
    assert "cret" not in str(refused.value)


@pytest.mark.parametrize("scheme", ["mongodb", "mongodb+srv"])
def test_a_url_opens_a_store(scheme):
    """By both schemes; nothing is asked of any server yet."""
    store = open_store(f"{scheme}://ann:s3cret@db.example/timers", Options(pool_size=5))
    assert isinstance(store, MongodbStore)
    assert store._address.pool_size == 5
