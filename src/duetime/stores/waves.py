"""Waves: a batch split such that one statement can write each part of it."""

from collections.abc import Iterable, Iterator, Sequence

from duetime.stores import Change, Insert


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


def insert_waves(inserts: Iterable[tuple[int, Insert]]) -> Iterator[list[tuple[int, Insert]]]:
    """Places and inserts, such that no id and no key occurs twice in a wave, in their order."""
    left = list(inserts)
    while left:
        seen: set[object] = set()
        wave: list[tuple[int, Insert]] = []
        later: list[tuple[int, Insert]] = []
        for placed in left:
            timer = placed[1].timer
            names = {timer.id, (timer.tenant, timer.group, timer.timer_id)}
            (wave if seen.isdisjoint(names) else later).append(placed)
            seen |= names  # of those that wait too: who has a name with them comes after them
        yield wave
        left = later
