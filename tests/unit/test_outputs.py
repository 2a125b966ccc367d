"""The check that no service has shown a secret, shown to find something."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.outputs import HeardProcess, Outputs

KEY = "dt_0123456789abcdef_" + "s" * 43
LEAKING = """
from tests.outputs import OUTPUTS

def test_a_service(tmp_path):
    OUTPUTS.keep("API_KEY", "marked-operators-key")
    log = tmp_path / "duetime.log"
    log.write_text("ready\\nkey=marked-operators-key\\n")
    OUTPUTS.watch(log)

def test_another():
    pass
"""


@pytest.fixture
def outputs() -> Outputs:
    return Outputs()


@pytest.mark.promise("no-secret")
def test_a_secret_is_found_by_its_name_and_place(outputs: Outputs, tmp_path: Path):
    """The file, the line, and what the secret is called; not the secret itself."""
    log = tmp_path / "duetime.log"
    log.write_text(f"ready\na request with {KEY} came\nand dt_0123456789abcdef is no secret\n")
    outputs.keep_key(KEY)
    outputs.watch(log)
    assert sorted(outputs.findings()) == [
        f"{log}:2: has an API key",
        f"{log}:2: has the key dt_0123456789abcdef",
    ]


@pytest.mark.promise("no-secret")
def test_every_kind_of_secret_is_known(outputs: Outputs):
    """From the settings of services, from requests, and from answers."""
    outputs.keep_settings(
        {
            "API_KEY": "marked-operator",
            "SIGNING_SECRETS": "whsec_marked-signing, whsec_marked-second",
            "DATABASE_URL": "mysql://duetime:marked%2Fpassword@127.0.0.1/x",
        }
    )
    callback = {
        "headers": {"Authorization": "Bearer marked-header"},
        "payload": {"cards": ["marked-payload"]},
    }
    answer = {"data": {"prefix": "dt_0123456789abcdef", "key": KEY}}
    outputs.keep_exchanged("marked-presented", {"callback": callback}, answer)
    for number, secret in enumerate(
        (
            "marked-operator",
            "marked-signing",
            "marked-second",
            "marked%2Fpassword",
            "marked/password",
            "marked-header",
            "marked-payload",
            "s" * 43,
            "marked-presented",
        ),
        1,
    ):
        outputs.hear("serve", f"{{'said': '{secret}'}}")
        assert len(outputs.findings()) == number


def test_a_file_that_is_gone_is_a_finding(outputs: Outputs, tmp_path: Path):
    """Else nobody would notice that nothing is looked through."""
    outputs.watch(tmp_path / "gone.log")
    assert outputs.findings() == [
        f"{tmp_path / 'gone.log'}: is gone, so nobody could look through it"
    ]


def test_what_a_test_reads_is_heard(outputs: Outputs, monkeypatch):
    """Line by line, and all the rest, from both streams."""
    monkeypatch.setattr("tests.outputs.OUTPUTS", outputs)
    outputs.keep("API_KEY", "marked-operator")
    say = "import sys; print('marked-operator\\nb\\nmarked-operator'); sys.exit('marked-operator')"
    process = HeardProcess(
        [sys.executable, "-c", say], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout.readline() == "marked-operator\n"
    assert process.communicate(timeout=20) == ("b\nmarked-operator\n", "marked-operator\n")
    assert len(outputs.findings()) == 3


@pytest.mark.slow
@pytest.mark.promise("no-secret")
@pytest.mark.parametrize("workers", [[], ["-n", "2"]], ids=["alone", "in workers"])
def test_a_run_with_a_leak_fails(tmp_path: Path, workers: list[str]):
    """By itself and in workers, and it says where to look."""
    (tmp_path / "test_leaking.py").write_text(LEAKING)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.outputs", *workers]
    ran = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ran.returncode == 1, ran.stdout
    assert "duetime.log:2: has API_KEY" in ran.stdout
    assert "2 passed, 1 error" in ran.stdout
    assert "marked-operators-key" not in ran.stdout
