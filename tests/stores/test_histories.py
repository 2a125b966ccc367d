"""Two tenants' histories on every store, interleaved and alone."""

from pathlib import Path
from random import Random

import pytest

from tests.property.histories import TENANTS, VERBS, Step, told
from tests.servers.fixtures import FreshDatabase
from tests.stores.conftest import STORES, empty_store

LENGTH = 40


def history(seed: int) -> list[Step]:
    """Steps that are the same in every run."""
    chance = Random(seed)
    verbs = sorted(VERBS)
    return [
        Step(chance.choice(TENANTS), chance.choice(verbs), chance.randrange(6), chance.randrange(6))
        for _ in range(LENGTH)
    ]


@pytest.mark.promise("tenants-apart")
@pytest.mark.parametrize("engine", STORES)
async def test_a_tenant_alone_is_told_the_same(
    engine: str, tmp_path: Path, fresh_database: FreshDatabase
):
    """Each of two tenants in turn: no answer tells whether the other is there."""
    for seed, tenant in enumerate(TENANTS):
        steps = history(seed)
        answers = []
        for together in (TENANTS, (tenant,)):
            folder = tmp_path / f"{seed} {len(together)}"
            folder.mkdir()
            async with empty_store(engine, folder, fresh_database) as store:
                answers.append((await told(store, steps, together))[tenant])
        assert answers[0] == answers[1]
