"""The lines of the audit."""

import asyncio

import pytest

from duetime import ids
from tests.factories import NOW, make_line

pytestmark = pytest.mark.promise("one-contract")

DAY = 86_400_000


async def test_a_line_comes_back_as_it_was(store):
    """All that is in a line is kept, and another tenant does not see it."""
    line = make_line(
        key="k1", group="billing", address="10.0.0.1", correlation_id="c", details={"a": [1, "ü"]}
    )
    plain = make_line(at=NOW + 1)
    await store.write_lines([line, plain], None)
    assert await store.lines("default", None, 10, descending=False) == [line, plain]
    assert await store.lines("other", None, 10, descending=False) == []


async def test_a_line_is_kept_once(store):
    """Written again, because an answer was lost, it is there once; and none are no trouble."""
    line = make_line()
    await asyncio.gather(store.write_lines([line], None), store.write_lines([line, line], None))
    await store.write_lines([], None)
    assert await store.lines("default", None, 10, descending=False) == [line]


@pytest.mark.parametrize("descending", [False, True])
async def test_page_by_page_in_the_order_of_time(store, descending):
    """Lines of many days come in their order, behind a place that need not be a line's."""
    lines = [make_line(at=NOW + number * DAY // 3) for number in range(12)]
    await store.write_lines(lines[::2], None)
    await store.write_lines(lines[1::2], None)
    expected = lines[::-1] if descending else lines
    found, after = [], None
    while page := await store.lines("default", after, 5, descending=descending):
        found += page
        after = page[-1].id
    assert found == expected
    middle = ids.first_at(lines[6].at)
    behind = await store.lines("default", middle, 100, descending=descending)
    assert behind == (lines[5::-1] if descending else lines[6:])


async def test_old_lines_are_dropped(keeping_store):
    """Lines made before a time go, of all tenants, a bounded number at once; the others stay."""
    store = keeping_store
    old = [make_line(at=NOW - 1 - number, tenant=tenant) for number in range(3) for tenant in "ab"]
    new = [make_line(at=NOW, tenant=tenant) for tenant in "ab"]
    await store.write_lines(old + new, DAY)
    dropped = [await store.drop_lines(NOW, 4) for _ in range(3)]
    assert dropped == [4, 2, 0]
    kept = [await store.lines(tenant, None, 10, descending=True) for tenant in "ab"]
    assert kept == [[new[0]], [new[1]]]
