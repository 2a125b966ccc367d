"""How many timers are claimed in one write."""

from duetime.engine.stride import FIRST, LARGEST, LONGEST, Stride


def test_writes_grow_while_they_are_full_and_quick():
    """The first of many leave soon; the others in large writes, up to a bound."""
    stride = Stride()
    sizes = []
    for _ in range(5):
        sizes.append(stride.most)
        stride.learn(stride.most, LONGEST / 10)
    assert sizes == [FIRST, 2 * FIRST, LARGEST, LARGEST, LARGEST]


def test_a_slow_store_gets_small_writes():
    """None of a batch leaves before all of it is written."""
    stride = Stride()
    stride.learn(FIRST, 0.0)
    stride.learn(2 * FIRST, 2 * LONGEST)
    assert stride.most == FIRST
    stride.learn(FIRST, 2 * LONGEST)
    assert stride.most == FIRST


def test_writes_that_are_not_full_do_not_grow():
    """A receiver with few places has few claimed at once, however many wait."""
    stride = Stride()
    stride.learn(FIRST, 0.0)
    stride.learn(FIRST + 1, 0.0)
    assert stride.most == 2 * FIRST


def test_the_next_burst_begins_anew():
    """When there are few again, the first of the next many leave soon too."""
    stride = Stride()
    for _ in range(3):
        stride.learn(stride.most, 0.0)
    stride.learn(1, 0.0)
    assert stride.most == FIRST
