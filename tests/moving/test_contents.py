"""What a store holds, and what of it moves."""

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import duetime
from duetime.moving.contents import CARRIED
from duetime.moving.journal import COPY_KIND
from duetime.nodes import LEAVING, NODE_KIND
from duetime.stores.dynamodb.sweep import KIND as SWEEPS

SOURCES = Path(duetime.__file__).parent


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
    else:  # a store makes it of what it reads
        assert ast.unparse(kind) == "kind", f"{path}: {ast.unparse(kind)}"
        assert "stores" in path.parts, path


def test_every_kind_of_record_moves_or_stays_on_purpose():
    """A new one must be added to those that move, or here to those that do not."""
    found = {kind for path in SOURCES.rglob("*.py") for kind in kinds_written(path)}
    stay = {NODE_KIND, LEAVING, COPY_KIND, SWEEPS}
    assert found == {*stay, *CARRIED}
