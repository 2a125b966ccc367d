"""Writes the table of docs/stores.md from what the stores say of themselves.

``make docs`` runs it on that page; a test says when it is needed.
"""

from collections.abc import Iterable

from duetime.generated import GeneratedPart
from duetime.stores.opening import KINDS
from duetime.stores.traits import Traits


def traits_table() -> str:
    """What every store can do, in Markdown: a line for each thing, a column for each store."""
    heads = ["", *(kind.traits.engine for kind in KINDS)]
    lines = [heads, ["---"] * len(heads), *_lines()]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


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


_PART = GeneratedPart("traits", "duetime.stores.reference", traits_table)
in_docs = _PART.in_docs

if __name__ == "__main__":
    _PART.main()
