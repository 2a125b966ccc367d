"""A generated part of a page of the docs: written by a program, between two comments."""

import sys
from collections.abc import Callable
from pathlib import Path


class GeneratedPart:
    """One part: its name, the module that is run to write it, and what makes its text."""

    def __init__(self, name: str, module: str, make: Callable[[], str]) -> None:
        self._begin = f"<!-- {name}: written by python -m {module} -->\n"
        self._end = f"<!-- end of {name} -->\n"
        self._make = make

    def in_docs(self, page: str) -> str:
        """The part as it stands in a page."""
        return page.partition(self._begin)[2].partition(self._end)[0]

    def rewritten(self, page: str) -> str:
        """The page with the part as it ought to be."""
        before, _, rest = page.partition(self._begin)
        return before + self._begin + self._make() + self._end + rest.partition(self._end)[2]

    def main(self) -> None:
        """Rewrite the page that the command line names."""
        document = Path(sys.argv[1])
        document.write_text(self.rewritten(document.read_text("utf-8")), "utf-8")
