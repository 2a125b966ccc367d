"""The limit on open files: raised where that is possible, and named where it is not."""

import subprocess
import sys

import pytest

SCRIPT = """
import logging, resource, sys
from duetime.cli.limits import allow_open_files
logging.basicConfig(level="WARNING", format="%(message)s")
resource.setrlimit(resource.RLIMIT_NOFILE, (256, int(sys.argv[1])))
allow_open_files(1000)
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""


@pytest.mark.parametrize(("most", "allowed"), [(4000, 2500), (2500, 2500), (300, 300)])
def test_open_files(most: int, allowed: int):
    """As many as needed, or as the system lets us have, and then a word about it."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(most)], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) == allowed
    assert ("raise the limit" in done.stderr) is (most < 2500)
    assert ("only 300 files may be open at once" in done.stderr) is (most < 2500)
