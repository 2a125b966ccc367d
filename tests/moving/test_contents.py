"""What a store holds, and what of it moves."""

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

import duetime
from duetime.moving import contents
from duetime.moving.contents import ACTIONS, CARRIED, CARRIED_BY_TENANT
from duetime.moving.journal import COPY_KIND
from duetime.nodes import LEAVING, NODE_KIND
from duetime.stores.dynamodb.sweep import KIND as SWEEPS
from duetime.stores.memory import MemoryStore
from duetime.tenancy import api_key, group, target, tenant, uses
from duetime.tenancy.rules import REVISIONS, Rules
from duetime.testing import FakeClock

SOURCES = Path(duetime.__file__).parent

# Where the kind of a record is not named where the record is made: which ones there are.
PASSED_ON = {
    ("tenancy/rules.py", "shelf.kind"): {
        shelf.kind for shelf in Rules(MemoryStore(), FakeClock())._shelves
    },
    ("bulk/action.py", "kind"): {ACTIONS, *CARRIED_BY_TENANT},
}


def kinds_written(path: Path) -> Iterator[str]:
    """The kinds of all records that a file makes, whatever its constants are called."""
    for call in ast.walk(ast.parse(path.read_text())):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
            kinds = [word.value for word in call.keywords if word.arg == "kind"]
            if call.func.id == "Record" and kinds:
                yield from _meaning(kinds[0], path)


def _meaning(kind: ast.expr, path: Path) -> Iterator[str]:
    if isinstance(kind, ast.Constant):
        yield str(kind.value)
    elif isinstance(kind, ast.Name) and kind.id.isupper():
        module = ".".join(path.relative_to(SOURCES.parent).with_suffix("").parts)
        yield getattr(importlib.import_module(module), kind.id)
    elif (place := (path.relative_to(SOURCES).as_posix(), ast.unparse(kind))) in PASSED_ON:
        yield from PASSED_ON[place]
    else:  # a store makes it of what it reads
        assert ast.unparse(kind) == "kind", f"{path}: {ast.unparse(kind)}"
        assert "stores" in path.parts, path


def test_every_kind_of_record_moves_or_stays_on_purpose():
    """A new one must be added to those that move, or here to those that do not."""
    found = {kind for path in SOURCES.rglob("*.py") for kind in kinds_written(path)}
    found.update(*PASSED_ON.values())
    stay = {NODE_KIND, LEAVING, COPY_KIND, SWEEPS, REVISIONS}
    assert found == {*stay, *CARRIED, *CARRIED_BY_TENANT}


def test_kinds_are_called_as_by_those_who_write_them():
    """Whoever moves them does not know who writes them."""
    assert contents.TENANTS == tenant.KIND
    assert contents.KEYS == api_key.KIND
    assert contents.GROUPS == group.KIND
    assert contents.TARGETS == target.KIND
    assert contents.KEY_USES == uses.KIND


def test_actions_are_called_as_by_those_who_write_them():
    """Those that are under way, and those of each tenant that have ended."""
    action = pytest.importorskip("duetime.bulk.action")
    archive = importlib.import_module("duetime.bulk.archive")
    assert action.KIND == ACTIONS
    assert archive.kind_of("acme") == f"{CARRIED_BY_TENANT[0]}acme"
