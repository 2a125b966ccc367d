"""Matching: whether a timer is what a search looks for, for stores that look themselves."""

from duetime.stores import Query
from duetime.timer import Timer


def matches(timer: Timer, query: Query) -> bool:
    """Tell whether a timer is what a search looks for, whatever the page."""
    spec = timer.spec
    return (
        timer.tenant == query.tenant
        and (query.status is None or timer.status is query.status)
        and (query.group is None or timer.group == query.group)
        and (query.tag is None or query.tag in spec.tags)
        and (query.name_prefix is None or (spec.name or "").startswith(query.name_prefix))
        and (query.correlation_id is None or spec.correlation_id == query.correlation_id)
        and (query.created_after is None or timer.created_at >= query.created_after)
        and (query.created_before is None or timer.created_at < query.created_before)
        and (query.execute_after is None or timer.execute_at >= query.execute_after)
        and (query.execute_before is None or timer.execute_at < query.execute_before)
    )
