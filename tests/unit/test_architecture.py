"""The architecture page names places in the code: they exist, on the path of a timer once."""

import ast
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text("utf-8")
PLACE = re.compile(r"`([a-z_/]+\.py)`\s+`(?!\w+\.py)([A-Za-z_.]+)`")


def section(title):
    """The text below a heading."""
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def names_in(file):
    """Every function of a file, those of classes with the name of the class."""
    folder = ROOT if file.startswith("tests/") else ROOT / "src" / "duetime"
    for node in ast.parse((folder / file).read_text("utf-8")).body:
        yield getattr(node, "name", None)
        for inner in node.body if isinstance(node, ast.ClassDef) else ():
            yield f"{node.name}.{getattr(inner, 'name', None)}"


def test_every_place_that_is_named_exists():
    """What was moved or renamed in the code is moved and renamed in the pages."""
    stores = (ROOT / "docs" / "stores.md").read_text("utf-8")
    of_stores = [(f"stores/{file}", name) for file, name in PLACE.findall(stores)]
    places = PLACE.findall(PAGE) + of_stores
    assert len(places) > 60
    gone = [f"{file} {name}" for file, name in places if name not in set(names_in(file))]
    assert gone == []


def test_the_path_names_each_place_once():
    """A timer that came through a place twice would go back and forth."""
    places = PLACE.findall(section("The path of one timer"))
    assert len(places) > 30
    assert sorted(set(places)) == sorted(places)


def test_the_import_rules_know_every_room():
    """A new file or folder belongs to the core, or the core must not know of it."""
    rules = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]
    core = next(rule for rule in rules["contracts"] if rule["name"].startswith("The core"))
    found = (ROOT / "src" / "duetime").glob("[!_.]*")
    rooms = {f"duetime.{path.stem}" for path in found if path.suffix in {"", ".py"}}
    assert {*core["source_modules"], *core["forbidden_modules"]} == rooms
