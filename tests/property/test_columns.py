"""The agenda's columns, whether sorted or heaps: the same as a plain list of what is not taken."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from duetime.engine import column
from duetime.engine.column import MANY, Column
from duetime.timer import Timer
from tests.factories import NOW, make_timer

TENANTS = ("a", "b", "c")
TIMES = st.integers(0, 40)
ANY_ORDER = st.lists(TIMES, max_size=20)
MANY_IN_ORDER = st.integers(1, 2 * MANY).map(
    lambda count: [40 * at // count for at in range(count)]
)
MANY_TURNED = MANY_IN_ORDER.map(lambda times: times[::-1])
LIMITS = (0, 1, 2, 7, MANY - 1, MANY, MANY + 1, 3 * MANY, 1_000)
STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("push"),
            st.sampled_from(TENANTS),
            st.one_of(ANY_ORDER, ANY_ORDER.map(sorted), MANY_IN_ORDER, MANY_TURNED),
        ),
        st.tuples(st.just("change"), st.integers(0, 500), TIMES),  # one that is there
        st.tuples(st.just("repeat"), st.integers(0, 500), TIMES),  # in the same version
        st.tuples(st.just("forget"), st.integers(0, 500), TIMES),
        st.tuples(st.just("take"), TIMES, st.sampled_from(LIMITS)),
        st.tuples(st.just("drop"), st.sampled_from(TENANTS), TIMES),
        st.tuples(st.just("look"), st.none(), st.none()),
    ),
    max_size=30,
)


class Model:
    """What a column should have: entries that are no timer's last word are as good as gone."""

    def __init__(self) -> None:
        self.versions: dict[str, int] = {}
        self.column = Column(self.versions)
        self.entries: list[tuple[int, int, Timer]] = []
        self.known: list[Timer] = []
        self.number = 0

    def push(self, timer: Timer, at: int) -> None:
        self.number += 1
        self.versions[timer.id] = timer.version
        self.entries.append((at, self.number, timer))
        self.column.push(at, self.number, timer)

    def valid(self) -> list[tuple[int, int, Timer]]:
        return sorted(
            entry for entry in self.entries if self.versions.get(entry[2].id) == entry[2].version
        )

    def take(self, now: int, limit: int) -> None:
        due = [entry for entry in self.valid() if entry[0] <= now]
        there = {timer.id for _, _, timer in due}
        taken = self.column.take(now, limit)
        assert len(taken) == min(limit, len(there))
        assert len({timer.id for timer in taken}) == len(taken)
        for tenant in TENANTS:  # of each, those that come first, in the order of time
            mine = [timer for timer in taken if timer.tenant == tenant]
            first = dict.fromkeys(timer.id for _, _, timer in due if timer.tenant == tenant)
            assert [timer.id for timer in mine] == list(first)[: len(mine)]
        self._check_shares(taken, due, limit)
        gone = {timer.id for timer in taken}
        self.entries = [entry for entry in self.entries if entry[2].id not in gone]
        assert not gone & self.versions.keys()

    def _check_shares(self, taken: list[Timer], due: list[tuple[int, int, Timer]], limit: int):
        """Who has more due than was taken got no less than anybody else, but for a rest."""
        waiting = {timer.tenant for _, _, timer in due if timer.id in self.versions}
        counts = {tenant: sum(timer.tenant == tenant for timer in taken) for tenant in TENANTS}
        for tenant in waiting if limit else ():
            assert counts[tenant] >= max(counts.values()) - len(TENANTS)

    def check(self) -> None:
        valid = self.valid()
        assert self.column.next_at == (valid[0][0] if valid else None)
        kept = list(self.column._entries())
        assert {entry[1] for entry in valid} <= {number for _, number, _ in kept}
        assert self.column.room == column.CAPACITY - len(kept)
        assert self.column.weight == sum(timer.weight for _, _, timer in kept)
        for tenant, heap in self.column._heaps.items():
            entries = heap.entries
            assert entries
            assert {timer.tenant for _, _, timer in entries} == {tenant}
            assert not heap.is_sorted or entries == sorted(entries)
            assert all(entries[(at - 1) // 2] < entries[at] for at in range(1, len(entries)))


@given(STEPS)
def test_a_column_is_a_list_in_the_order_of_time(steps):
    """Whatever is pushed, changed, dropped and taken, in whatever order and number."""
    model = Model()
    for what, which, more in steps:
        if what == "push":
            for at in more:
                timer = make_timer(tenant=which)
                model.known.append(timer)
                model.push(timer, NOW + at)
        elif what == "take":
            model.take(NOW + which, more)
        elif what == "drop":
            dropped = model.column.drop(lambda timer, tenant=which: timer.tenant == tenant)
            assert {timer.tenant for timer in dropped} <= {which}
            assert not {timer.id for timer in dropped} & model.versions.keys()
        elif what != "look" and model.known:
            at = which % len(model.known)
            timer = model.known[at]
            if what == "forget":
                model.versions.pop(timer.id, None)
            elif what == "change":
                model.known[at] = replace(timer, version=timer.version + 1)
                model.push(model.known[at], NOW + more)
            elif timer.id in model.versions:  # nobody puts an old version back
                model.push(timer, NOW + more)
        model.check()
    model.take(NOW + 100, 100_000)
    assert model.column.next_at is None
    assert model.column.room == column.CAPACITY
