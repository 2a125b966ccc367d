"""A PgBouncer in front of a PostgreSQL server, pooling by transaction."""

from pathlib import Path

from tests.servers.installs import Install
from tests.servers.kept import within_reach
from tests.servers.postgres import USER, PostgresServer
from tests.servers.server import Server

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


class Pgbouncer(Server):
    """Each transaction of a client may run on another connection: sessions keep nothing."""

    name = "pgbouncer"

    def __init__(self, install: Install, server: PostgresServer) -> None:
        self._install = install
        self._server = server
        super().__init__()

    def url(self, database: str = "postgres", **query: str) -> str:
        """Where to reach the server through it."""
        return self._server.url(database, **query).replace(
            f":{self._server.port}/", f":{self.port}/"
        )

    def command(self) -> list[str | Path]:
        return [self._install.program("pgbouncer"), self.folder / "pgbouncer.ini"]

    def environment(self) -> dict[str, str]:
        return self._install.environment

    def set_up(self) -> None:
        self._install = within_reach(self._install, "pgbouncer", self._account, self.folder)
        users = self.folder / "users.txt"
        users.touch(mode=0o600)
        # In the clear, since it must prove to the server that it knows the password.
        users.write_text(f'"{USER}" "{self._server.password}"\n')
        configuration = self.folder / "pgbouncer.ini"
        configuration.write_text(
            _CONFIGURATION.format(server_port=self._server.port, port=self.port, users=users)
        )
        self._account.own(users, configuration)
