"""The address of a Cassandra keyspace: what a URL says, and what is wrong with one."""

from types import SimpleNamespace

import pytest

from duetime.errors import ConfigurationError
from duetime.stores.cassandra.address import Address
from duetime.stores.cassandra.schema import making_keyspace
from duetime.stores.cassandra.session import check_datacenter
from duetime.stores.cassandra.store import CassandraStore
from duetime.stores.opening import Options, open_store

HERE = "cassandra://ann:s3cret@db.example"


def test_a_plain_url_has_defaults():
    """Nothing but a host needs to be said."""
    assert Address.parse("cassandra://db.example") == Address((("db.example", 9042),))


def test_both_schemes_are_the_same():
    """ScyllaDB speaks the same protocol."""
    assert Address.parse("scylla://a:1/k") == Address.parse("cassandra://a:1/k")


def test_every_option():
    """All that can be said is understood."""
    options = f"datacenter=dc1&consistency=global&replication=5&tls=on&tls_ca={__file__}"
    assert Address.parse(f"cassandra://a%40b:p%2F%3A@h1,h2,[::1]:9043/timers?{options}") == Address(
        hosts=(("h1", 9043), ("h2", 9043), ("::1", 9043)),
        keyspace="timers",
        user="a@b",
        password="p/:",
        datacenter="dc1",
        is_global=True,
        replication=5,
        has_tls=True,
        tls_ca=__file__,
    )


def test_a_host_may_have_a_port_of_its_own():
    """Where it has none, that of the last one counts."""
    assert Address.parse("cassandra://a:1,b,c:3").hosts == (("a", 1), ("b", 3), ("c", 3))


def test_the_url_wins_over_what_is_given_beside_it():
    """The schema of the settings names the keyspace where the URL does not."""
    assert Address.parse(HERE, schema="beside").keyspace == "beside"
    assert Address.parse(f"{HERE}/inside", schema="beside").keyspace == "inside"


@pytest.mark.parametrize(
    ("url", "named"),
    [
        (f"{HERE}/Upper", "keyspace"),
        (f"{HERE}/1st", "keyspace"),
        (f"{HERE}/a/b", "keyspace"),
        (f"{HERE}/{'k' * 49}", "keyspace"),
        (f"{HERE}/k?consistency=one", "consistency: must be local or global"),
        (f"{HERE}/k?replication=0", "replication: must be from 1 to 99"),
        (f"{HERE}/k?replication=x", "replication: must be from 1 to 99"),
        (f"{HERE}/k?datacenter=", "datacenter"),
        (f"{HERE}/k?datacenter=a'b", "datacenter"),
        (f"{HERE}/k?tls=yes", "tls: must be off or on"),
        (f"{HERE}/k?tls_ca=/no/such", "tls_ca: there is no file"),
        (f"{HERE}/k?pool_size=3", "pool_size: no such option"),
        (f"{HERE}:0/k", "port"),
        (f"{HERE}:70000/k", "port"),
        (f"{HERE}:x/k", "port"),
        ("cassandra:///k", "looks like"),
        ("cassandra://[::1/k", "looks like"),
        ("cassandra://ann:s3cret#x@db/k", "%23"),
        ("cassandra://ann:s3cret/x@db/k", "%2F"),
        ("cassandra://ann:s3cret?x@db/k", "%3F"),
        ("cassandra://ann:9042?tls=s3cret@db/k", "%3F"),
        ("cassandra://ann:s3cret@x@db/k", "%40"),
    ],
)
def test_what_is_wrong_is_named(url, named):
    """The message says what to change, and never repeats the password."""
    with pytest.raises(ConfigurationError) as raised:
        Address.parse(url)
    assert named in str(raised.value)
    assert "s3cret" not in str(raised.value)


def test_the_password_is_not_shown():
    """An address in a log gives nothing away."""
    assert "s3cret" not in repr(Address.parse(HERE))


def test_a_url_opens_a_store():
    """Both schemes do, and the schema of the settings is its keyspace."""
    for scheme in ("cassandra", "scylla"):
        store = open_store(f"{scheme}://db.example", Options(schema="beside", retention=1))
        assert isinstance(store, CassandraStore)


def test_a_keyspace_on_one_server_has_one_copy():
    """And three in each datacenter where there are more; or as many as somebody says."""
    address = Address.parse("cassandra://a/k")
    alone = "CREATE KEYSPACE IF NOT EXISTS k WITH replication = {'class': 'SimpleStrategy', "
    assert making_keyspace(address, ["dc1"]) == f"{alone}'replication_factor': 1}}"
    many = "CREATE KEYSPACE IF NOT EXISTS k WITH replication = {'class': 'NetworkTopologyStrategy'"
    assert making_keyspace(address, ["dc2", "dc1", "dc1"]) == f"{many}, 'dc1': 3, 'dc2': 3}}"
    five = address._replace(replication=5)
    assert making_keyspace(five, ["dc1", "dc1"]) == f"{many}, 'dc1': 5}}"


@pytest.mark.parametrize(
    ("options", "datacenters", "is_refused"),
    [
        ("", ["dc1"], False),
        ("", ["dc1", "dc1", None], False),  # one that has not said yet where it is
        ("", ["dc2", "dc1", "dc2"], True),
        ("?consistency=local", ["dc2", "dc1"], True),
        ("?consistency=global", ["dc2", "dc1"], False),
        ("?datacenter=dc2", ["dc2", "dc1"], False),
    ],
)
def test_one_of_several_datacenters_must_be_named(options, datacenters, is_refused):
    """Otherwise chance would say which, for each session anew; the message says what there is."""
    address = Address.parse(f"{HERE}/k{options}")
    hosts = [SimpleNamespace(datacenter=name) for name in datacenters]
    if not is_refused:
        check_datacenter(address, hosts)
        return
    with pytest.raises(ConfigurationError, match=r"has dc1, dc2; .*\?datacenter=dc1") as raised:
        check_datacenter(address, hosts)
    assert "s3cret" not in str(raised.value)
