"""A catalogue: the actions in records, each read only as far as somebody looks at it.

An action may be large, by the filter that somebody asked with: it is found by its label, and of a
long list only the page is read that is shown.
"""

from contextlib import suppress
from functools import cached_property

import msgspec

from duetime.bulk import action as actions
from duetime.bulk.action import Action, Label
from duetime.stores import Record


class Entry:
    """An action in its record."""

    def __init__(self, record: Record, label: Label) -> None:
        self.record = record
        self.label = label

    @cached_property
    def action(self) -> Action | None:
        """All of it; None: another version has written it."""
        with suppress(msgspec.MsgspecError):
            return actions.read(self.record)
        return None


class Catalogue:
    """The actions in records, tenant by tenant."""

    def __init__(self, records: list[Record]) -> None:
        self._records = records
        self._by_tenant: dict[str, list[Entry]] = {}

    def of(self, tenant: str) -> list[Entry]:
        """Those of one tenant, but for what is no action in the eyes of this version."""
        if tenant not in self._by_tenant:
            self._by_tenant[tenant] = [
                Entry(record, label)
                for record in self._records
                if record.name.startswith(f"{tenant}/")
                and (label := actions.label_of(record)) is not None
            ]
        return self._by_tenant[tenant]
