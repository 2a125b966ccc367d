"""Lists: how much is read at once, and that a page is the same however it is read."""

import itertools

import pytest
from msgspec import Raw
from msgspec.structs import replace

from duetime import listing, model
from duetime.api.views import view
from duetime.appetite import Appetite
from duetime.listing import Lists, in_short
from duetime.searching import EVERYTHING, Filter, Part, search
from duetime.service import Service
from duetime.stores import Change, Insert
from duetime.stores.memory import MemoryStore
from duetime.tenancy.caller import OPERATOR, Caller
from duetime.testing import FakeClock, RecordingSender
from duetime.timer import HttpCallback, Kind, Outcome, Status
from tests.factories import NOW, insert, make_spec, make_timer

ACME = Caller("acme")
HEAVY = 10_000  # bytes of a timer here
HEAVIEST = 10 * HEAVY  # that are read at once


class Recording(MemoryStore):
    """A store that notes what each search brought."""

    def __init__(self) -> None:
        super().__init__()
        self.portions: list[int] = []
        self.weights: list[int] = []

    async def search(self, query):
        page = await super().search(query)
        self.portions.append(len(page.timers))
        self.weights.append(sum(timer.weight for timer in page.timers))
        return page

    def forget(self) -> None:
        self.portions.clear()
        self.weights.clear()


@pytest.fixture
def heaviest(monkeypatch: pytest.MonkeyPatch) -> int:
    """How many bytes are read at once, fewer than usual."""
    monkeypatch.setattr(listing, "HEAVIEST", HEAVIEST)
    return HEAVIEST


async def store_of(count: int, weight: int = 0, **about) -> Recording:
    """A store with so many timers of acme, each of about this weight."""
    store = Recording()
    payload = Raw(b'"%s"' % (b"x" * weight))
    callback = HttpCallback(url="https://example.com", payload=payload)
    timers = [
        make_timer(
            tenant="acme",
            group="ab"[at % 2],
            status=(Status.PENDING, Status.PAUSED)[at // 2 % 2],
            created_at=NOW + at // 3,
            execute_at=NOW + 1_000 - at // 2,
            spec=make_spec(callback=callback, tags=("t",) if at % 3 else (), **about),
        )
        for at in range(count)
    ]
    await store.migrate()
    await store.insert([Insert(timer) for timer in timers])
    return store


@pytest.mark.parametrize("wanted", [EVERYTHING, Filter(tags=("t",)), Filter(name_contains="a")])
async def test_heavy_timers_are_read_some_at_a_time(heaviest, wanted):
    """A list holds about so many bytes at once; who lists again begins with no more than that."""
    store = await store_of(300, HEAVY, name="a")
    lists = Lists(store.search, counts=True)
    page = await lists.page(ACME, wanted, Part(limit=200))
    assert len(page.timers) == 200
    assert max(timer.weight for timer in page.timers) < HEAVY
    assert store.portions[0] <= listing.FIRST
    assert max(store.weights[1:]) <= heaviest
    store.forget()
    await lists.page(ACME, wanted, Part(limit=200))
    assert max(store.weights) <= heaviest


async def test_whoever_asks_the_service_is_given_a_list_like_that(heaviest):
    """Read some at a time, and in short."""
    store = await store_of(200, HEAVY)
    service = Service(store, RecordingSender(), FakeClock(NOW))
    page = await service.search(ACME, EVERYTHING, Part(limit=200))
    assert [timer.spec.weight for timer in page.timers] == [0] * 200
    assert max(store.weights[1:]) <= heaviest


async def test_light_timers_are_read_at_once():
    """The usual page is one call to the store, and the largest is two."""
    store = await store_of(500)
    lists = Lists(store.search, counts=True)
    for _ in range(3):
        for limit, portions in ((1, [1]), (50, [50]), (200, [50, 150])):
            await lists.page(ACME, EVERYTHING, Part(limit=limit))
            assert store.portions == portions
            store.forget()
    await lists.page(ACME, Filter(name_contains="?"), Part())
    assert store.portions == [50, 200, 200, 50]


async def test_whose_timers_are_heavy_is_of_no_concern_to_others(heaviest):
    """Each tenant has its own measure, which grows again with light timers."""
    store = await store_of(60, HEAVY)
    lists = Lists(store.search, counts=True)
    await store.insert([Insert(make_timer(tenant="rival")) for _ in range(60)])
    await lists.page(ACME, EVERYTHING, Part())
    store.forget()
    await lists.page(Caller("rival"), EVERYTHING, Part())
    assert store.portions == [50]
    light = [make_timer(tenant="acme", created_at=NOW + 5_000) for _ in range(200)]
    await store.insert([Insert(timer) for timer in light])
    await lists.page(ACME, EVERYTHING, Part())
    await lists.page(ACME, EVERYTHING, Part())
    store.forget()
    await lists.page(ACME, EVERYTHING, Part(limit=40))
    assert store.portions == [40]


FILTERS = [
    EVERYTHING,
    Filter(groups=("a",)),
    Filter(groups=("a", "b")),
    Filter(statuses=(Status.PAUSED,), tags=("t",)),
    Filter(metadata={"m": 1}),
    Filter(metadata={"m": 2}),
]


@pytest.mark.parametrize("weight", [1, HEAVY])
async def test_a_page_is_the_same_however_it_is_read(heaviest, weight):
    """Filters, order, offset, cursor and total, as if all had been read at once."""
    store = await store_of(130, weight, metadata=Raw(b'{"m":1}'))
    lists = Lists(store.search, counts=True)
    orders = itertools.product(FILTERS, ("created_at", "execute_at"), (True, False))
    for wanted, sort, descending in orders:
        part = Part(sort=sort, descending=descending)
        for limit, offset in itertools.product((1, 7, 50, 64, 200), (0, 3, 100, 500)):
            await compare(store, lists, wanted, replace(part, limit=limit, offset=offset))
        page = await store.search(replace(EVERYTHING.query("acme"), sort=sort, limit=40))
        after = getattr(page.timers[-1], sort), page.timers[-1].id
        await compare(store, lists, wanted, replace(part, limit=77, after=after))


async def compare(store: Recording, lists: Lists, wanted: Filter, part: Part) -> None:
    whole = await search(store.search, "acme", wanted, part, counts=True)
    page = await lists.page(ACME, wanted, part)
    assert page == replace(whole, timers=[in_short(timer) for timer in whole.timers])


@pytest.mark.parametrize("wanted", [EVERYTHING, Filter(name_contains="a")])
async def test_where_a_store_gives_up_a_page_ends(heaviest, wanted):
    """Also in the middle of one that is read some at a time; its place is told."""
    store = await store_of(100, HEAVY, name="a")
    read, place = store.search, (NOW, "a place")

    async def gives_up(query):
        page = await read(query)
        return replace(page, stopped_at=place) if query.after is not None else page

    page = await Lists(gives_up, counts=True).page(ACME, wanted, Part(limit=90))
    assert (len(page.timers), page.stopped_at) == (sum(store.portions), place)
    assert len(store.portions) == 2


async def test_a_timer_that_is_moved_meanwhile_is_shown_once():
    """Between two portions of one page: where it is now, and the page is as long as it can be."""
    store = MemoryStore()
    timers = [make_timer(execute_at=NOW + number) for number in range(120)]
    await insert(store, *timers)
    portions = 0

    async def read(query):
        nonlocal portions
        page = await store.search(query)
        portions += 1
        if portions == 1:
            moved = model.update(timers[0], NOW, spec=timers[0].spec, execute_at=NOW + 1_000)
            assert await store.apply([Change(timers[0], moved)]) == [True]
        return page

    part = Part(limit=200, sort="execute_at", descending=False)
    page = await Lists(read, counts=True).page(OPERATOR, EVERYTHING, part)
    assert portions > 1
    assert [timer.id for timer in page.timers] == [
        *(timer.id for timer in timers[1:]),
        timers[0].id,
    ]


def test_a_timer_in_short_shows_the_same():
    """What a list shows is all there; what it does not show is gone."""
    callback = HttpCallback(
        url="https://example.com", headers={"A": "x" * 500}, payload=Raw(b'"%s"' % (b"x" * 500))
    )
    timer = make_timer(spec=make_spec(callback=callback, metadata=Raw(b'{"m":1}'), name="n"))
    outcome = Outcome(kind=Kind.HTTP, status_code=500, response="x" * 500)
    timer = replace(timer, progress=replace(timer.progress, attempt=3, outcome=outcome))
    short = in_short(timer)
    assert view(short) == view(timer)
    assert short.spec.weight == 0
    assert "x" * 500 not in repr(short)


def test_an_appetite_goes_by_weight():
    """It grows while timers are light, comes down at once, and is never nothing."""
    appetite = Appetite(10, HEAVIEST, growth=3)
    appetite.learn([make_timer()])
    assert appetite.most == 30
    spec = make_spec(metadata=Raw(b'"%s"' % (b"x" * HEAVY)))
    appetite.learn([make_timer(spec=spec)] * 3)
    assert appetite.most == 8
    appetite.learn([make_timer(spec=make_spec(metadata=Raw(b'"%s"' % (b"x" * HEAVIEST))))])
    assert appetite.most == 1
    appetite.learn([])
    assert appetite.most == 1
