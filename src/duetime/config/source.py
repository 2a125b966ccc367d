"""A source is a value as it was written, before anybody has read it."""

from typing import Any, NamedTuple

from duetime.config.table import Setting


class Source(NamedTuple):
    """A value as it was written, and what to call the place where it was."""

    text: str
    place: str

    def read(self, setting: Setting, problems: list[str]) -> Any:
        """The value, or None and one problem more."""
        if not self.text:
            return setting.empty
        try:
            return setting.reads(self.text.strip())
        except ValueError as error:
            found = "" if setting.is_secret else f", not {self.text[:60]!r}"
            problems.append(f"{self.place}: {error}{found}")
            return None
