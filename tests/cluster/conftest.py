"""The databases that the nodes of a cluster share."""

from pathlib import Path

import pytest

from tests.servers.fixtures import FreshDatabase

POSTGRES = "postgres-18"


@pytest.fixture(params=["sqlite", POSTGRES])
async def database_url(
    request: pytest.FixtureRequest, tmp_path: Path, fresh_database: FreshDatabase
) -> str:
    """An empty database of each kind that several nodes can share."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'duetime.db'}"
    return await fresh_database(request.param)
