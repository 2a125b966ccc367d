"""A cluster with several datacenters: the one to work with is named, not drawn."""

import pytest

from duetime.errors import ConfigurationError
from tests.factories import insert, make_timer


@pytest.mark.slow
async def test_a_cluster_with_two_datacenters(cassandra_datacenters, open_store):
    """Without a name the start is refused; with one, or if both must agree, it works."""
    url = cassandra_datacenters.url
    with pytest.raises(ConfigurationError, match=r"the cluster has 0, 1; .*datacenter=0"):
        await open_store(url("k", replication="1"))
    named = await open_store(url("k", replication="1", datacenter="1"))
    together = await open_store(url("k", consistency="global"))
    timer = make_timer()
    await insert(named, timer)
    for store in (named, together):
        assert await store.get([timer.id]) == [timer]
