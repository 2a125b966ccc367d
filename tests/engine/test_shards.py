"""Which shards fall to which node: rendezvous hashing over the nodes that are alive."""

import pytest

from duetime.engine.shards import Rendezvous
from duetime.ids import ALL_SHARDS


def owners_of(nodes):
    rendezvous = Rendezvous()
    return {shard: node for node in nodes for shard in rendezvous.shards_of(node, nodes)}


@pytest.mark.parametrize("count", [2, 3, 8])
def test_a_node_that_goes_moves_only_its_own_shards(count):
    """Rendezvous hashing: nobody else's shards change hands. Coming is the same, backwards."""
    nodes = [f"node-{number}" for number in range(count)]
    before, after = owners_of(nodes), owners_of(nodes[1:])
    moved = [shard for shard in ALL_SHARDS if before[shard] != after[shard]]
    assert {before[shard] for shard in moved} == {nodes[0]}


@pytest.mark.parametrize("count", [1, 2, 20])
def test_every_shard_has_one_owner(count):
    """Both ways of asking agree, and shares are about equal."""
    nodes = [f"node-{number}" for number in range(count)]
    owners = owners_of(nodes)
    assert sorted(owners) == list(ALL_SHARDS)
    assert Rendezvous().owners(nodes) == [owners[shard] for shard in ALL_SHARDS]
    shares = [list(owners.values()).count(node) for node in nodes]
    assert min(shares) > len(ALL_SHARDS) / count * 0.7


def test_of_equal_scores_the_last_name_wins(monkeypatch):
    """So that a tie has one winner as well."""
    rendezvous = Rendezvous()
    rendezvous.shards_of("a", ["a", "b", "c"])
    same = rendezvous._scores["a"]
    rendezvous._scores = dict.fromkeys("abc", same)
    assert rendezvous.shards_of("c", ["a", "b", "c"]) == frozenset(ALL_SHARDS)
    assert rendezvous.shards_of("b", ["a", "b", "c"]) == frozenset()
    assert rendezvous.owners(["a", "b", "c"]) == ["c"] * len(ALL_SHARDS)


def test_scores_of_the_dead_are_forgotten():
    """Names are new with every start; memory must not grow with them."""
    rendezvous = Rendezvous()
    for number in range(20):
        rendezvous.shards_of("a", ["a", f"node-{number}"])
    assert len(rendezvous._scores) == 2
