"""The keyspace and its tables: brought up to date, or refused with what an administrator must run.

Each step is written such that running it again does no harm, for Cassandra has no lock to take.
"""

from typing import Any

from cassandra import InvalidRequest, Unauthorized

from duetime.errors import ConfigurationError
from duetime.stores.cassandra.address import Address
from duetime.stores.cassandra.session import in_keyspace
from duetime.stores.schema import Migration

# How many copies of each row there are, unless somebody says otherwise.
COPIES = 3


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
        _check_up_to_date(keyspace, newest, known)
    if newest < known[-1].number:
        _make_tables(session, keyspace, [step for step in known if step.number > newest])


def _check_up_to_date(keyspace: str, newest: int, known: list[Migration]) -> None:
    if newest == 0:
        raise ConfigurationError(f"there are no timers in the keyspace {keyspace}: name another")
    if newest < known[-1].number:
        raise ConfigurationError(
            f"the keyspace {keyspace} was made by an older Duetime: run duetime migrate on it first"
        )


def _make_keyspace(session: Any, address: Address) -> None:
    hosts = session.cluster.metadata.all_hosts()
    statement = making_keyspace(address, [host.datacenter for host in hosts])
    try:
        session.execute(statement)
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
        rows = list(session.execute(f"SELECT number, oldest FROM {keyspace}.schema_history"))
    except InvalidRequest:  # there is no such table
        return 0
    newest, oldest = (max((row[place] for row in rows), default=0) for place in (0, 1))
    if oldest > known[-1].number:
        raise ConfigurationError(
            f"the keyspace {keyspace} was made by a newer Duetime (it is at number {newest}, for "
            f"programs that know {oldest}; this one knows {known[-1].number}): upgrade Duetime"
        )
    return int(newest)


def _make_tables(session: Any, keyspace: str, steps: list[Migration]) -> None:
    try:
        session.execute(
            f"CREATE TABLE IF NOT EXISTS {keyspace}.schema_history "
            "(number int PRIMARY KEY, name text, oldest int)"
        )
        for step in steps:
            for statement in _statements(step.script):
                session.execute(in_keyspace(keyspace, statement))
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
