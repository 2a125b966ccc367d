"""Java is fetched, not found, and trusts whom Python trusts."""

import ssl
from pathlib import Path

import pytest

from tests.servers.java import java, trust_store
from tests.servers.unavailable import Unavailable

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def runtime():
    try:
        return java()
    except Unavailable as reason:
        pytest.skip(str(reason))


def test_it_runs(runtime):
    """The runtime is version 17, and none of its links leads to the system's Java."""
    assert runtime.run("java", "--version").startswith("openjdk 17.")
    inside = [link for link in runtime.root.rglob("*") if link.is_symlink()]
    assert [link for link in inside if str(link.readlink()).startswith("/etc/java")] == []


def test_it_trusts_whom_python_trusts(runtime, tmp_path: Path):
    """Every authority of Python's is in the trust store that Java reads."""
    authorities = ssl.create_default_context().get_ca_certs(binary_form=True)
    store = tmp_path / "trusted"
    store.write_bytes(trust_store(authorities))
    listed = runtime.run("keytool", "-list", "-keystore", str(store), "-storepass", "changeit")
    assert listed.count("trustedCertEntry") == len(authorities)
