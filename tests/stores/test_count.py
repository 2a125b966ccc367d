"""How many timers a tenant has."""

import pytest

from duetime.stores import Count
from duetime.timer import Status
from tests.factories import claim_of, insert, make_timer

pytestmark = pytest.mark.promise("one-contract")


async def test_by_group_and_status(store):
    """Each group and status that has timers is counted, and another tenant's are not."""
    pending = [make_timer(group="a") for _ in range(3)]
    await insert(
        store,
        *pending,
        make_timer(group="A"),
        make_timer(group="b", status=Status.COMPLETED, wake_at=None),
        make_timer(group="b", status=Status.PAUSED, wake_at=None),
        make_timer(tenant="other", group="a"),
    )
    assert await store.apply([claim_of(pending[0])]) == [True]
    assert sorted(await store.count("default")) == [
        Count("A", Status.PENDING, 1),
        Count("a", Status.EXECUTING, 1),
        Count("a", Status.PENDING, 2),
        Count("b", Status.COMPLETED, 1),
        Count("b", Status.PAUSED, 1),
    ]
    assert await store.count("other") == [Count("a", Status.PENDING, 1)]
    assert await store.count("nobody") == []


async def test_more_than_a_page(store):
    """Nothing is left out where there are many."""
    await insert(store, *(make_timer() for _ in range(700)))
    assert await store.count("default") == [Count("default", Status.PENDING, 700)]
