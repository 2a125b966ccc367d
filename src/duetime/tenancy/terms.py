"""The terms of each group, by the rules as they are now."""

from functools import lru_cache

from duetime.delivery.schema import compiled
from duetime.delivery.schema_size import UnfitSchema
from duetime.delivery.terms import Check, Terms
from duetime.tenancy.rules import Rules
from duetime.timer import Timer


class GroupTerms:
    """Answers from memory: it is asked at every attempt."""

    def __init__(self, rules: Rules, usual: Terms) -> None:
        self._rules = rules
        self._usual = usual  # of a group that has none of its own
        self._with = lru_cache(maxsize=256)(self._checked)

    def of(self, timer: Timer) -> Terms:
        """The terms under which a timer is delivered now."""
        group = self._rules.group(timer.tenant, timer.group)
        if group is None or group.response_schema is None:
            return self._usual
        return self._with(group.response_schema)

    def _checked(self, schema: str) -> Terms:
        return self._usual._replace(check=_check(schema))


def _check(schema: str) -> Check:
    try:
        return compiled(schema)
    except UnfitSchema as error:  # it was set on a node that has what this one lacks
        problem = f"this node cannot check the answer by response_schema, which {error}"
        return lambda _body: problem
