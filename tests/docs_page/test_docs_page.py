"""The page at /docs: it needs nothing from elsewhere, and a browser draws it."""

import re
import shutil
import signal
import subprocess
import sys

import pytest

from tests.docs_page.sign import PAGE, signed
from tests.outputs import HeardProcess
from tests.ports import free_port

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")


def test_the_policy_names_the_style_and_the_script_that_are_there():
    """If not: python -m tests.docs_page.sign."""
    page = PAGE.read_text("utf-8")
    assert signed(page) == page
    assert "default-src 'none'" in page


def test_the_page_needs_nothing_from_elsewhere():
    """No address but its own, so that it works offline."""
    page = PAGE.read_text("utf-8")
    assert re.findall(r"https?://[^\s\"'`]+", page) == []
    assert re.findall(r"\b(?:src|srcset|@import)\s*[=(]", page) == []


def test_the_page_has_nothing_that_its_policy_forbids():
    """No handlers or styles in attributes, no evaluated code, no HTML made from text."""
    page = PAGE.read_text("utf-8")
    assert re.findall(r"<[^>]+\son[a-z]+=|<[^>]+\sstyle=", page) == []
    assert not any(word in page for word in ("innerHTML", "outerHTML", "eval(", "document.write"))


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
def test_a_browser_draws_every_operation(tmp_path):
    """Under its own policy, from the description that a node serves."""
    port = free_port()
    program = "import sys; from duetime.cli import main; sys.exit(main())"
    node = HeardProcess(
        [sys.executable, "-c", program, "dev", "--port", str(port)],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        while "listens on" not in (line := node.stdout.readline()):
            assert line, "the node ended before it listened"
        drawn = subprocess.run(
            [
                CHROMIUM,
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-quic",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
                f"--user-data-dir={tmp_path / 'profile'}",
                "--virtual-time-budget=5000",
                "--dump-dom",
                f"http://127.0.0.1:{port}/docs#create_a_timer",
            ],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
    finally:
        node.send_signal(signal.SIGINT)
        node.communicate(timeout=30)
    assert 'class="problem"' not in drawn
    assert drawn.count('<details class="op"') >= 15
    assert "HttpCallbackBody" in drawn
    assert f"curl -sS -X POST 'http://127.0.0.1:{port}/timers'" in drawn
