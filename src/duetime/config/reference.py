"""Writes the table of docs/configuration.md from the table that the program reads by.

``python -m duetime.config.reference docs/configuration.md``; a test says when it is needed.
"""

import sys
from collections.abc import Iterable
from pathlib import Path

from duetime.config.table import EVERY, Setting

_BEGIN = "<!-- settings: written by python -m duetime.config.reference -->\n"
_END = "<!-- end of settings -->\n"


def settings_table() -> str:
    """Every setting, in Markdown."""
    heads = "| variable | flag | default | values | what it is |\n|---|---|---|---|---|\n"
    return heads + "".join(_rows(EVERY))


def in_docs(page: str) -> str:
    """The table as it stands in a page."""
    return page.partition(_BEGIN)[2].partition(_END)[0]


def rewritten(page: str) -> str:
    """The page with the table as it ought to be."""
    before, _, rest = page.partition(_BEGIN)
    return before + _BEGIN + settings_table() + _END + rest.partition(_END)[2]


def _rows(settings: Iterable[Setting]) -> Iterable[str]:
    for setting in settings:
        flag = f"`{setting.flag}`" if setting.flag else ""
        default = f"`{setting.default}`" if setting.default else ""
        cells = [f"`{setting.env}`", flag, default, setting.reads.values, setting.help]
        yield "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |\n"


if __name__ == "__main__":
    document = Path(sys.argv[1])
    document.write_text(rewritten(document.read_text("utf-8")), "utf-8")
