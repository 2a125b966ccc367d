"""What a run says at its end of the servers that it ran on."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parents[2]
ONE = "tests/nats/test_connection.py::test_nobody_listens"
OWN = "tests/nats/test_jetstream.py::test_without_jetstream"


def summary_of(*arguments: str) -> str:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    environment = {**os.environ, "PYTEST_ADDOPTS": ""}
    for name in [name for name in environment if name.startswith("PYTEST_XDIST")]:
        del environment[name]
    run = subprocess.run(
        command, cwd=HERE, env=environment, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


@pytest.mark.slow
def test_servers_that_are_no_parameters_are_counted(server_url):
    """A server that tests ask for counts as much as one that they are run for one by one."""
    server_url("nats")  # skips where there is none
    lines = summary_of("-n", "1", ONE, OWN).splitlines()
    [nats] = [line for line in lines if line.startswith("nats")]
    assert nats.startswith("nats (NATS 2.")
    assert nats.endswith(": 4 tests passed")  # each on two event loops
    assert "postgres-18: no test passed" in lines
