"""TLS to a PostgreSQL server: as strict as the URL asks for."""

import pytest

from duetime.errors import StoreUnavailable
from duetime.stores.opening import open_store
from tests.servers.certificates import AUTHORITY

STRANGER = AUTHORITY.with_name("expired.pem")  # it has signed nothing
ENCRYPTED = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"


async def test_tls(own_postgres):
    """A server is trusted by its authority, and a stranger's is refused, without a secret."""
    server = own_postgres("postgres-15", tls=True)
    verified = {"sslmode": "verify-full", "sslrootcert": str(AUTHORITY)}
    for query in ({}, {"sslmode": "require"}, verified):
        store = open_store(server.url(**query))
        await store.migrate()
        assert await store._pool.run(lambda connection: connection.fetchval(ENCRYPTED)) is True
        await store.close()
    for query, message in (
        ({"sslmode": "disable"}, "no encryption"),
        ({"sslmode": "verify-full", "sslrootcert": str(STRANGER)}, "certificate verify failed"),
        ({"sslmode": "verify-ca", "sslrootcert": str(STRANGER)}, "certificate verify failed"),
    ):
        store = open_store(server.url(**query))
        with pytest.raises(StoreUnavailable, match=message) as refused:
            await store.migrate()
        assert server.password not in str(refused.value)
        await store.close()
