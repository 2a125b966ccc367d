"""Waves: a batch of changes split such that one statement can write each part of it."""

from collections.abc import Iterator, Sequence

from duetime.stores import Change


def waves(changes: Sequence[Change]) -> Iterator[list[tuple[int, Change]]]:
    """Places and changes, such that no timer occurs twice in a wave and the order is kept."""
    left = list(enumerate(changes))
    while left:
        wave: dict[str, tuple[int, Change]] = {}
        later = []
        for place, change in left:
            if change.old.id in wave:
                later.append((place, change))
            else:
                wave[change.old.id] = (place, change)
        yield list(wave.values())
        left = later
