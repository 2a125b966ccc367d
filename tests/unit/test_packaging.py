"""The files around the program say the same as the program."""

import re
from pathlib import Path

from duetime.config import load_settings
from duetime.config.dotenv import read_dotenv
from duetime.config.table import PG_TABLE, TABLE

ROOT = Path(__file__).parents[2]
KNOWN = {setting.env for setting in (*TABLE, *PG_TABLE)}


def test_the_example_env_names_only_settings_that_exist(tmp_path):
    """And is valid once its comments are taken away and the secrets are set."""
    text = (ROOT / ".env.example").read_text()
    path = tmp_path / ".env"
    path.write_text(re.sub(r"^#(?=[A-Z])", "", text, flags=re.MULTILINE))
    values, problems = read_dotenv(path)
    assert problems == []
    assert set(values) <= KNOWN
    load_settings({}, {"API_KEY": "k" * 32}, path, required=["API_KEY"])


def test_compose_passes_on_only_settings_that_exist():
    """A variable with another name would be silently without effect."""
    block = re.search(r"  duetime:.*?environment:\n(.*?)\n    ports:", _compose(), re.DOTALL)
    assert set(re.findall(r"^ +([A-Z_]+):", block[1], re.MULTILINE)) <= KNOWN


def test_the_images_default_database_is_on_its_volume():
    """So that timers outlive the container."""
    text = (ROOT / "Dockerfile").read_text()
    assert "DATABASE_URL=sqlite:////data/duetime.db" in text
    assert "VOLUME /data" in text
    assert "duetime_data:/data" in _compose()


def _compose() -> str:
    return (ROOT / "compose.yaml").read_text()
