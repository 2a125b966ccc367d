"""The database that the nodes of a cluster share."""

import os
import uuid
from pathlib import Path

import pytest


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    """An empty database: a file, or a schema on the server that CLUSTER_DATABASE_URL names."""
    if server := os.environ.get("CLUSTER_DATABASE_URL"):
        return f"{server}?schema=cluster_{uuid.uuid4().hex}"
    return f"sqlite:///{tmp_path / 'duetime.db'}"
