"""Writes the table of docs/configuration.md from the table that the program reads by.

``make docs`` runs it on that page; a test says when it is needed.
"""

from collections.abc import Iterable

from duetime.config.table import EVERY, Setting
from duetime.generated import GeneratedPart


def settings_table() -> str:
    """Every setting, in Markdown."""
    heads = "| variable | flag | default | values | what it is |\n|---|---|---|---|---|\n"
    return heads + "".join(_rows(EVERY))


def _rows(settings: Iterable[Setting]) -> Iterable[str]:
    for setting in settings:
        flag = f"`{setting.flag}`" if setting.flag else ""
        default = f"`{setting.default}`" if setting.default else ""
        cells = [f"`{setting.env}`", flag, default, setting.reads.values, setting.help]
        yield "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |\n"


_PART = GeneratedPart("settings", "duetime.config.reference", settings_table)
in_docs = _PART.in_docs

if __name__ == "__main__":
    _PART.main()
