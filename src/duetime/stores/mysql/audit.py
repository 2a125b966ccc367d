"""The lines of the audit in MySQL: written once each, read by tenant, dropped by time."""

from collections.abc import Sequence

from duetime import ids
from duetime.audit_line import AuditLine
from duetime.clock import Millis
from duetime.stores.codec import decode_line, to_json
from duetime.stores.mysql import statements
from duetime.stores.mysql.disentangling import disentangled
from duetime.stores.mysql.literals import content, text, uuid
from duetime.stores.mysql.session import Session
from duetime.stores.mysql.writes import LONGEST, room
from duetime.stores.portions import portions


async def write(session: Session, lines: Sequence[AuditLine]) -> None:
    """Keep lines; who is there already stays. In the order of ids, like all that is written."""
    rows = [_row(line) for line in sorted(lines, key=lambda line: line.id)]
    for part in portions(rows, len, heaviest=room(session), longest=LONGEST):
        statement = statements.inserting_lines(part)

        async def work(statement: bytes = statement) -> None:
            await session.ask(statement)

        await disentangled(session, work)


def _row(line: AuditLine) -> bytes:
    return f"({uuid(line.id)},{text(line.tenant)},{content(to_json(line))})".encode()


async def read(
    session: Session, tenant: str, after: str | None, limit: int, *, descending: bool
) -> list[AuditLine]:
    """A tenant's lines in order, behind a place."""
    rows = await session.rows(reading(tenant, after, limit, descending=descending))
    return [decode_line(body) for (body,) in rows]


def reading(tenant: str, after: str | None, limit: int, *, descending: bool) -> str:
    """The statement that reads a tenant's lines."""
    sign, order = ("<", "DESC") if descending else (">", "ASC")
    behind = "" if after is None else f" AND id {sign} {uuid(ids.bound(after))}"
    return (
        "SELECT body FROM audit_lines FORCE INDEX (audit_lines_tenant) "
        f"WHERE tenant = {text(tenant)}{behind} ORDER BY id {order} LIMIT {limit}"
    )


async def drop(session: Session, before: Millis, limit: int) -> int:
    """Drop the lines of all tenants that were made before then, oldest first; how many."""

    async def work() -> int:
        [answer] = await session.ask(dropping(before, limit))
        return answer.affected

    return await disentangled(session, work)


def dropping(before: Millis, limit: int) -> str:
    """The statement that drops lines."""
    return (
        f"DELETE FROM audit_lines WHERE id < {uuid(ids.first_at(before))} ORDER BY id LIMIT {limit}"
    )
