"""The schema in a MySQL database: brought up to date by one node, while the others wait.

During a rolling upgrade, nodes of two versions share the tables. So a step of the schema says which
programs can live with it: those that know the schema up to some number. Most steps only add, and
say the number before their own. MySQL cannot take back a table: a step that was interrupted is run
again from its start.
"""

import hashlib

from asyncmy import errors

from duetime.errors import ConfigurationError, StoreUnavailable
from duetime.stores.mysql import literals
from duetime.stores.mysql.errors import number_of
from duetime.stores.mysql.session import ANSWER_WITHIN, LOCK_WITHIN, Session
from duetime.stores.schema import Migration, check_not_newer, check_steps

# How long, in seconds, a step of the schema may take, or wait for another node to make it.
MIGRATE_WITHIN = 600.0

_NO_RIGHT = frozenset({1044, 1142, 1227})
_NO_SUCH_TABLE = 1146


async def migrate(session: Session, database: str, known: list[Migration]) -> None:
    """Run the migrations that this database has not seen yet."""
    try:
        if await _newest(session, known) < known[-1].number:  # as a rule it is not
            await _migrate_alone(session, database, known)
    except errors.MySQLError as error:
        if number_of(error) not in _NO_RIGHT:
            raise
        raise ConfigurationError(
            f"this user may not make or use tables in the database {database} ({error.args[-1]}): "
            f"let an administrator run GRANT ALL ON {database}.* TO ..."
        ) from error


async def check_up_to_date(session: Session, database: str, known: list[Migration]) -> None:
    """Refuse a database that has no tables of ours, or older ones than this version's."""
    newest = await _newest(session, known)
    check_steps(f"the database {database}", newest, known[-1].number)


async def _migrate_alone(session: Session, database: str, known: list[Migration]) -> None:
    """Of ten nodes that start at once one makes the tables; the others then find them made."""
    lock = f"duetime-schema-{hashlib.sha256(database.encode()).hexdigest()[:32]}"
    try:
        await session.ask(
            session.dialect.limit(MIGRATE_WITHIN),
            f"SET SESSION lock_wait_timeout = {MIGRATE_WITHIN:.0f}",
        )
        [(is_ours,)] = await session.rows(f"SELECT GET_LOCK('{lock}', {MIGRATE_WITHIN:.0f})")
        if not is_ours:
            raise StoreUnavailable("MySQL: another node has been making the tables for ten minutes")
        newest = await _newest(session, known)
        await session.ask(
            "CREATE TABLE IF NOT EXISTS schema_history (number INT NOT NULL PRIMARY KEY, "
            "name VARBINARY(255) NOT NULL, oldest INT NOT NULL) ENGINE = InnoDB"
        )
        for step in known:
            if step.number > newest:
                await session.ask(step.script.rstrip().removesuffix(";"))
                await session.ask(
                    "INSERT INTO schema_history (number, name, oldest) VALUES "
                    f"({step.number}, {literals.text(step.name)}, {step.oldest})"
                )
    finally:
        await session.ask(
            f"DO RELEASE_LOCK('{lock}')",
            session.dialect.limit(ANSWER_WITHIN),
            f"SET SESSION lock_wait_timeout = {LOCK_WITHIN:.0f}",
        )


async def _newest(session: Session, known: list[Migration]) -> int:
    """The number of the newest migration that was run; 0 if there was none."""
    try:
        [(newest, oldest)] = await session.rows(
            "SELECT coalesce(max(number), 0), coalesce(max(oldest), 0) FROM schema_history"
        )
    except errors.MySQLError as error:
        if number_of(error) == _NO_SUCH_TABLE:
            return 0
        raise
    check_not_newer("the database", newest, oldest, known[-1].number)
    return int(newest)
