"""A clock, and two houses."""

import pytest

from duetime.stores.memory import MemoryStore
from duetime.testing import FakeClock


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def source():
    return MemoryStore()


@pytest.fixture
def target():
    return MemoryStore()
