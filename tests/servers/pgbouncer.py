"""A PgBouncer in front of a PostgreSQL server, pooling by transaction."""

from pathlib import Path

from tests.servers.install import Install, from_debian
from tests.servers.installed import InstalledServer
from tests.servers.postgres import USER, PostgresServer

_CONFIGURATION = """\
[databases]
* = host=127.0.0.1 port={server_port}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = {users}
pool_mode = transaction
default_pool_size = 5
max_client_conn = 200
"""


def pgbouncer() -> Install:
    """PgBouncer, from Debian."""
    return from_debian("pgbouncer", programs="usr/sbin", program="pgbouncer")


class Pgbouncer(InstalledServer):
    """Each transaction of a client may run on another connection: sessions keep nothing."""

    name = program = "pgbouncer"

    def __init__(self, install: Install, server: PostgresServer) -> None:
        self._server = server
        super().__init__(install)

    def url(self, database: str = "postgres", **query: str) -> str:
        """Where to reach the server through it."""
        return self._server.url(database, **query).replace(
            f":{self._server.port}/", f":{self.port}/"
        )

    def command(self) -> list[str | Path]:
        return [self._install.program("pgbouncer"), self.folder / "pgbouncer.ini"]

    def set_up(self) -> None:
        super().set_up()
        users = self.folder / "users.txt"
        users.touch(mode=0o600)
        # In the clear, since it must prove to the server that it knows the password.
        users.write_text(f'"{USER}" "{self._server.password}"\n')
        configuration = self.folder / "pgbouncer.ini"
        configuration.write_text(
            _CONFIGURATION.format(server_port=self._server.port, port=self.port, users=users)
        )
        self._account.own(users, configuration)
