"""The schema in a PostgreSQL database: brought up to date by one node, while the others wait.

During a rolling upgrade, nodes of two versions share the tables. So a step of the schema says which
programs can live with it: those that know the schema up to some number. Most steps only add, and
say the number before their own.
"""

import asyncpg

from duetime.errors import ConfigurationError
from duetime.stores.schema import Migration, check_not_newer, check_steps

# How long, in seconds, a step of the schema may take, or wait for another node to make it.
MIGRATE_WITHIN = 600.0

# Any number, so long as nobody else uses it for a lock of his own.
_LOCK = 0x44554554


async def migrate(connection: asyncpg.Connection, schema: str, known: list[Migration]) -> None:
    """Run the migrations that this schema has not seen yet, all or none."""
    try:
        await _migrate(connection, schema, known)
    except (asyncpg.InsufficientPrivilegeError, asyncpg.InvalidSchemaNameError) as error:
        # A schema that one may not use is passed over, as if it were not there.
        raise ConfigurationError(
            f"this user of the database may not use the schema {schema} ({error}): let an "
            f"administrator run GRANT USAGE, CREATE ON SCHEMA {schema} TO ... and, where its "
            "tables are somebody else's, GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN "
            f"SCHEMA {schema} TO ...; or name another with DATABASE_SCHEMA"
        ) from error


async def check_up_to_date(
    connection: asyncpg.Connection, schema: str, known: list[Migration]
) -> None:
    """Refuse a schema that is not there, or that is older than this version's."""
    newest = await _newest(connection, schema, known)
    advice = "name the right one with ?schema="
    check_steps(f"the schema {schema}", newest, known[-1].number, advice)


async def _migrate(connection: asyncpg.Connection, schema: str, known: list[Migration]) -> None:
    if await _newest(connection, schema, known) >= known[-1].number:
        return  # as a rule; and it needs no right to change tables
    async with connection.transaction():
        await connection.execute(f"SET LOCAL statement_timeout = {int(MIGRATE_WITHIN * 1000)}")
        await connection.execute(f"SET LOCAL lock_timeout = {int(MIGRATE_WITHIN * 1000)}")
        # Of ten nodes that start at once one makes the tables; the others then find them made.
        await connection.execute(f"SELECT pg_advisory_xact_lock({_LOCK}, hashtext($1))", schema)
        newest = await _newest(connection, schema, known)
        if newest >= known[-1].number:
            return
        await _make_schema(connection, schema)
        await connection.execute(f"SET LOCAL search_path TO {schema}")
        await connection.execute(
            "CREATE TABLE IF NOT EXISTS schema_history "
            "(number INTEGER PRIMARY KEY, name TEXT NOT NULL, oldest INTEGER NOT NULL)"
        )
        for migration in known:
            if migration.number > newest:
                await connection.execute(migration.script)
                await connection.execute(
                    "INSERT INTO schema_history VALUES ($1, $2, $3)",
                    migration.number,
                    migration.name,
                    migration.oldest,
                )


async def _newest(connection: asyncpg.Connection, schema: str, known: list[Migration]) -> int:
    """The number of the newest migration that was run; 0 if there was none."""
    # Asked of the catalogue itself: to_regclass remembers from before the lock that there is none.
    if not await connection.fetchval(
        "SELECT EXISTS (SELECT FROM pg_catalog.pg_tables "
        "WHERE schemaname = $1 AND tablename = 'schema_history')",
        schema,
    ):
        return 0
    [(newest, oldest)] = await connection.fetch(
        f"SELECT coalesce(max(number), 0), coalesce(max(oldest), 0) FROM {schema}.schema_history"
    )
    check_not_newer(f"the schema {schema}", newest, oldest, known[-1].number)
    return int(newest)


async def _make_schema(connection: asyncpg.Connection, schema: str) -> None:
    if await connection.fetchval(
        "SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1)", schema
    ):
        return
    try:
        await connection.execute(f"CREATE SCHEMA {schema}")
    except asyncpg.InsufficientPrivilegeError as error:
        raise ConfigurationError(
            f"this user of the database may not make the schema {schema}: let an administrator run "
            f"CREATE SCHEMA {schema} AUTHORIZATION ...; or name another with DATABASE_SCHEMA"
        ) from error
