"""The keyspace and its tables: brought up to date, or refused with what an administrator must run.

Cassandra has no lock for changes of the schema, so several may do all this at once. Each step is
written such that running it again does no harm, and is waited for until all servers that are up
know of it. Where two make a table at once, on two servers, they make the same one: its id, by which
servers tell tables apart, is made of its name and of when its keyspace was made.
"""

import re
import uuid
from contextlib import suppress
from typing import Any

from cassandra import InvalidRequest, OperationTimedOut, ReadTimeout, Unauthorized

from duetime.errors import ConfigurationError, StoreUnavailable
from duetime.stores.cassandra.address import Address
from duetime.stores.cassandra.session import in_keyspace
from duetime.stores.schema import Migration, check_not_newer, check_steps

# How many copies of each row there are, unless somebody says otherwise.
COPIES = 3
AGREE_WITHIN = 30.0  # seconds, for all servers to know of a change

_MOST_TRIES = 5  # of a read that got no answer

_IDS = uuid.UUID("6f0d4b0e-5b7c-4b6a-9d1e-2a7c1f3e8d54")  # of our tables, among all ids
_NEW_TABLE = re.compile(r"CREATE TABLE IF NOT EXISTS (\w+\.\w+) ")


def migrate(
    session: Any, address: Address, known: list[Migration], *, must_exist: bool = False
) -> None:
    """Make what is missing, or refuse if it must exist. It blocks: call it on a thread."""
    keyspace = address.keyspace
    is_there = keyspace in session.cluster.metadata.keyspaces
    if not is_there and not must_exist:
        _make_keyspace(session, address)
    newest = _newest(session, keyspace, known) if is_there or not must_exist else 0
    if must_exist:
        check_steps(f"the keyspace {keyspace}", newest, known[-1].number)
    if newest < known[-1].number:
        _make_tables(session, keyspace, [step for step in known if step.number > newest])


def _make_keyspace(session: Any, address: Address) -> None:
    hosts = session.cluster.metadata.all_hosts()
    statement = making_keyspace(address, [host.datacenter for host in hosts])
    try:
        _run(session, statement)
    except Unauthorized as error:
        raise ConfigurationError(
            f"this user may not make the keyspace {address.keyspace}: let an administrator run "
            f"{statement}; or name another in DATABASE_URL"
        ) from error


def making_keyspace(address: Address, datacenters: list[str]) -> str:
    """The statement that makes the keyspace on servers in these datacenters."""
    copies = address.replication or (1 if len(datacenters) == 1 else COPIES)
    if len(datacenters) == 1:
        replication = f"'class': 'SimpleStrategy', 'replication_factor': {copies}"
    else:
        each = ", ".join(f"'{name}': {copies}" for name in sorted(set(datacenters)))
        replication = f"'class': 'NetworkTopologyStrategy', {each}"
    return f"CREATE KEYSPACE IF NOT EXISTS {address.keyspace} WITH replication = {{{replication}}}"


def _newest(session: Any, keyspace: str, known: list[Migration]) -> int:
    """The number of the newest step that was made; 0 if there was none."""
    try:
        rows = _steps_made(session, keyspace)
    except InvalidRequest:  # there is no such table
        return 0
    newest, oldest = (max((row[place] for row in rows), default=0) for place in (0, 1))
    check_not_newer(f"the keyspace {keyspace}", newest, oldest, known[-1].number)
    return int(newest)


def _steps_made(session: Any, keyspace: str) -> list[Any]:
    """The rows of the history.

    While a server is dead and nobody knows it yet, who asks it waits in vain, and a table that is
    read as a whole is not asked for elsewhere by Cassandra itself.
    """
    question = f"SELECT number, oldest FROM {keyspace}.schema_history"
    for _ in range(_MOST_TRIES - 1):
        with suppress(ReadTimeout, OperationTimedOut):
            return list(session.execute(question))
    return list(session.execute(question))


def _make_tables(session: Any, keyspace: str, steps: list[Migration]) -> None:
    _await_agreement(session)  # on the keyspace, which somebody else may just have made too
    made_at = _made_at(session, keyspace)
    history = (
        "CREATE TABLE IF NOT EXISTS duetime.schema_history "
        "(number int PRIMARY KEY, name text, oldest int)"
    )
    try:
        _run(session, with_id(in_keyspace(keyspace, history), made_at))
        for step in steps:
            for statement in _statements(step.script):
                _run(session, with_id(in_keyspace(keyspace, statement), made_at))
            session.execute(
                f"INSERT INTO {keyspace}.schema_history (number, name, oldest) VALUES (%s, %s, %s)",
                (step.number, step.name, step.oldest),
            )
    except Unauthorized as error:
        raise ConfigurationError(
            f"this user may not make tables in the keyspace {keyspace}: let an administrator run "
            f"GRANT CREATE, ALTER, SELECT, MODIFY ON KEYSPACE {keyspace} TO ...; "
            "or name another in DATABASE_URL"
        ) from error


def _statements(script: str) -> list[str]:
    lines = [line for line in script.splitlines() if not line.startswith("--")]
    return [part.strip() for part in "\n".join(lines).split(";") if part.strip()]


def with_id(statement: str, made_at: int) -> str:
    """The same statement; if it makes a table, then one with the id that everybody gives it."""
    found = _NEW_TABLE.match(statement)
    if found is None:
        return statement
    id_ = uuid.uuid5(_IDS, f"{found[1]} {made_at}")
    return f"{statement} {'AND' if ') WITH ' in statement else 'WITH'} ID = {id_}"


def _made_at(session: Any, keyspace: str) -> int:
    """When the keyspace was made. One of the same name that was dropped before had other tables."""
    row = session.execute(
        "SELECT WRITETIME(durable_writes) FROM system_schema.keyspaces WHERE keyspace_name = %s",
        (keyspace,),
    ).one()
    if row is None:
        raise ConfigurationError(f"the keyspace {keyspace} was dropped while it was being set up")
    return int(row[0])


def _run(session: Any, statement: str) -> None:
    """Change the schema, and return when all servers that are up have changed it."""
    asked = session.execute_async(statement)
    asked.result()
    if not asked.is_schema_agreed:
        _await_agreement(session)


def _await_agreement(session: Any) -> None:
    if not session.cluster.control_connection.wait_for_schema_agreement(wait_time=AGREE_WITHIN):
        raise StoreUnavailable("Cassandra: its servers do not agree on the schema; try again")
