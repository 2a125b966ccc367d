"""Writes the table of docs/stores.md from what the stores say of themselves.

``python -m duetime.stores.reference docs/stores.md``; a test says when it is needed.
"""

import sys
from collections.abc import Iterable
from pathlib import Path

from duetime.stores.opening import KINDS
from duetime.stores.traits import Traits

_BEGIN = "<!-- traits: written by python -m duetime.stores.reference -->\n"
_END = "<!-- end of traits -->\n"


def traits_table() -> str:
    """What every store can do, in Markdown: a line for each thing, a column for each store."""
    heads = ["", *(kind.traits.engine for kind in KINDS)]
    lines = [heads, ["---"] * len(heads), *_lines()]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def in_docs(page: str) -> str:
    """The table as it stands in a page."""
    return page.partition(_BEGIN)[2].partition(_END)[0]


def rewritten(page: str) -> str:
    """The page with the table as it ought to be."""
    before, _, rest = page.partition(_BEGIN)
    return before + _BEGIN + traits_table() + _END + rest.partition(_END)[2]


def _lines() -> Iterable[list[str]]:
    cells = [_cells(kind.traits) for kind in KINDS]
    for what in cells[0]:
        yield [what, *(each[what] for each in cells)]


def _cells(traits: Traits) -> dict[str, str]:
    """What is said of one store, by what it is about."""
    return {
        "nodes that share a database": traits.nodes,
        "news between nodes": _yes(is_so=traits.passes_news),
        "filters of lists": {
            "index": "by an index",
            "reading": "by reading along; a page may end early",
        }[traits.filtering],
        "`sort=execute_at`": _yes(is_so=traits.sorts_by_time),
        "`total`": _yes(is_so=traits.counts),
        "largest `offset`": "any" if traits.skips is None else f"{traits.skips:,}",
        "finished timers expire": "in the engine" if traits.drops_by_itself else "by Duetime",
        "`NUM_SHARDS` unless set": str(traits.num_shards),
    }


def _yes(*, is_so: bool) -> str:
    return "yes" if is_so else "no"


if __name__ == "__main__":
    document = Path(sys.argv[1])
    document.write_text(rewritten(document.read_text("utf-8")), "utf-8")
