"""Portions: parts of a bounded weight and length, and as few of them as can be."""

import pytest

from duetime.stores.portions import portions


@pytest.mark.parametrize(
    ("weights", "parts"),
    [
        ([], []),
        ([4, 6, 1], [[4, 6], [1]]),
        ([11, 2, 3, 12, 4], [[11], [2, 3], [12], [4]]),
        ([1, 1, 1, 1, 9], [[1, 1, 1], [1, 9]]),
        ([6, 6, 6, 2, 2], [[6], [6], [6, 2, 2]]),
    ],
)
def test_each_part_takes_as_much_as_it_may(weights, parts):
    """In order: ten in weight and three in number at most, and what is heavier is alone."""
    assert list(portions(weights, int, heaviest=10, longest=3)) == parts
