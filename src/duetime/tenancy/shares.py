"""Shares: which part of a limit of the whole cluster is one node's.

Each node tells with its heartbeats how much is asked of it, and takes that share. All go by the
same figures, a heartbeat apart, and need neither agree on the time nor ask each other.
"""

from collections.abc import Collection, Mapping
from math import log2
from typing import NamedTuple


class Part(NamedTuple):
    """What one node has of a limit: a share of its rate, and so many at once."""

    rate: float
    most: int


def rate_share(mine: float, others: Collection[float], even_part: float) -> float:
    """The share of a rate, of which a part is shared evenly: who is new must be able to begin."""
    nodes = len(others) + 1
    if nodes == 1:
        return 1.0
    all_of_it = mine + sum(others)
    if all_of_it == 0:
        return 1 / nodes
    return even_part / nodes + (1 - even_part) * mine / all_of_it


def seats(total: int, node: str, asked: Mapping[str, float]) -> int:
    """How many of so many places are a node's, by what is asked of each.

    Each has one, also where there are fewer than nodes. The rest is given out by demand, and what
    cannot be split goes to who comes closest to one more; so all of them together are the total.
    Demand counts roughly, lest places move to and fro with every small change of it.
    """
    rest = total - len(asked)
    if rest <= 0:
        return 1
    rough = {name: 2.0 ** round(log2(each)) if each else 0.0 for name, each in asked.items()}
    all_of_it = sum(rough.values())
    fair = {
        name: rest * (each / all_of_it if all_of_it else 1 / len(asked))
        for name, each in rough.items()
    }
    left = rest - sum(int(each) for each in fair.values())
    closest = sorted(fair, key=lambda name: (int(fair[name]) - fair[name], name))
    return 1 + int(fair[node]) + (node in closest[:left])
