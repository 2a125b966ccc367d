"""PgBouncer in front of a server: a connection of a client is not a session of the server."""

import asyncpg
import pytest

from tests.servers.fixtures import OwnPgbouncer, OwnPostgres
from tests.servers.kinds import POSTGRES


@pytest.mark.parametrize("engine", POSTGRES)
async def test_clients_share_a_session(
    engine: str, own_postgres: OwnPostgres, own_pgbouncer: OwnPgbouncer
):
    """Queries go through, and two clients, one after the other, get the same session."""
    server = own_postgres(engine)
    pooler = own_pgbouncer(server)
    assert pooler.port != server.port
    clients = [await asyncpg.connect(pooler.url(), statement_cache_size=0) for _ in range(2)]
    sessions = {await client.fetchval("select pg_backend_pid()") for client in clients}
    for client in clients:
        await client.close()
    assert len(sessions) == 1
