"""Two tenants' histories, interleaved and each alone."""

import asyncio

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from duetime.stores.memory import MemoryStore
from tests.property.histories import TENANTS, VERBS, Step, told

NUMBERS = st.integers(0, 5)
STEPS = st.builds(Step, st.sampled_from(TENANTS), st.sampled_from(sorted(VERBS)), NUMBERS, NUMBERS)


async def both_ways(steps: list[Step]) -> None:
    together = await told(MemoryStore(), steps)
    for tenant in TENANTS:
        alone = await told(MemoryStore(), steps, (tenant,))
        assert alone[tenant] == together[tenant]


@pytest.mark.promise("tenants-apart")
@pytest.mark.slow
@settings(
    max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
@given(st.lists(STEPS, min_size=1, max_size=60))
def test_a_tenant_alone_is_told_the_same(steps: list[Step]):
    """Whatever two tenants do in whatever order, neither can tell whether the other is there."""
    asyncio.run(both_ways(steps))
