"""A figure is one thing measured, beside its ceiling and what we aim at."""

from statistics import median
from typing import Literal

import msgspec


class Aim(msgspec.Struct, frozen=True):
    """What a figure should be, by itself or as seen from its ceiling."""

    kind: Literal["ratio >=", "ratio <=", "ceiling +", "<"]
    value: float

    def is_met(self, measured: float, ceiling: float | None) -> bool:
        """Tell whether it is."""
        if self.kind == "<":
            return measured < self.value
        if ceiling is None:
            return False
        if self.kind == "ceiling +":
            return measured <= ceiling + self.value
        ratio = measured / ceiling if ceiling else 0.0
        return ratio >= self.value if self.kind == "ratio >=" else ratio <= self.value

    def __str__(self) -> str:
        return f"{self.kind} {self.value:g}"


class Figure(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One line of the table."""

    workload: str
    what: str
    unit: str
    measured: float
    ceiling: float | None = None
    ceiling_is: str = ""  # what the ceiling was measured with
    aim: Aim | None = None
    rival: str = ""
    samples: list[float] = []  # where it was made of several, all of them in order

    @property
    def ratio(self) -> float | None:
        """How much of the ceiling is reached."""
        return self.measured / self.ceiling if self.ceiling else None

    @property
    def is_met(self) -> bool | None:
        """Tell whether the aim is met; None where there is none."""
        return None if self.aim is None else self.aim.is_met(self.measured, self.ceiling)


def on_shards(shards: int, figure: Figure) -> Figure:
    """The same, with the number of shards in its name."""
    return msgspec.structs.replace(figure, what=f"{figure.what}, shards: {shards}")


def typical(runs: list[list[Figure]]) -> list[Figure]:
    """Of each figure over several runs the one whose ratio, or else whose value, is the median.

    So a measured figure always stands beside the ceiling of its own run: on a shared machine both
    move together, and only what stands side by side can be compared.
    """
    return [_middle([run[place] for run in runs]) for place in range(len(runs[0]))]


def _middle(alike: list[Figure]) -> Figure:
    def rank(figure: Figure) -> float:
        return figure.measured if figure.ratio is None else figure.ratio

    middle = median(rank(figure) for figure in alike)
    return min(alike, key=lambda figure: abs(rank(figure) - middle))
