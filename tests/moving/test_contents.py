"""What a store holds, and what of it moves."""

import re
from pathlib import Path

import duetime
from duetime.moving.contents import CARRIED
from duetime.moving.journal import COPY_KIND
from duetime.nodes import NODE_KIND
from duetime.stores.dynamodb.sweep import KIND as SWEEPS

NAMED = re.compile(r'\bkind="(\w+)"|^\w*KIND = "(\w+)"', re.MULTILINE)


def test_every_kind_of_record_moves_or_stays_on_purpose():
    """A new one must be added to those that move, or here to those that do not."""
    sources = Path(duetime.__file__).parent.rglob("*.py")
    found = {a or b for path in sources for a, b in NAMED.findall(path.read_text())}
    stay = {NODE_KIND, COPY_KIND, SWEEPS}
    assert stay <= found <= {*stay, *CARRIED}
