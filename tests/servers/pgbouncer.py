"""A PgBouncer in front of a PostgreSQL server, pooling by transaction."""

import shutil
import signal
import socket
from typing import Self

from tests.ports import free_port
from tests.servers.account import server_account
from tests.servers.installs import Install
from tests.servers.kept import KeptProcess, make_folder, within_reach
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


class Pgbouncer:
    """Each transaction of a client may run on another connection: sessions keep nothing."""

    def __init__(self, install: Install, server: PostgresServer) -> None:
        self.port = free_port()
        self._server = server
        self._account = server_account()
        self.folder = make_folder("pgbouncer", self._account)
        self._process: KeptProcess | None = None
        try:
            self._install = within_reach(install, "pgbouncer", self._account, self.folder)
            self._configure()
        except BaseException:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def url(self, database: str = "postgres", **query: str) -> str:
        """Where to reach the server through it."""
        return self._server.url(database, **query).replace(
            f":{self._server.port}/", f":{self.port}/"
        )

    def start(self) -> None:
        """Start it, and return once it takes connections."""
        assert self._process is None, "it is running already"
        self._process = KeptProcess(
            [self._install.program("pgbouncer"), self.folder / "pgbouncer.ini"],
            env=self._install.environment,
            account=self._account,
            folder=self.folder,
            farewell=signal.SIGTERM,
        )
        self._process.wait_until(self._is_ready)

    def stop(self) -> None:
        """End it at once; clients lose their connections."""
        assert self._process is not None, "it is not running"
        process, self._process = self._process, None
        process.end(signal.SIGTERM)

    def close(self) -> None:
        """End it, if it runs, and remove what it wrote."""
        if self._process is not None:
            self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _configure(self) -> None:
        users = self.folder / "users.txt"
        users.touch(mode=0o600)
        # In the clear, since it must prove to the server that it knows the password.
        users.write_text(f'"{USER}" "{self._server.password}"\n')
        configuration = self.folder / "pgbouncer.ini"
        configuration.write_text(
            _CONFIGURATION.format(server_port=self._server.port, port=self.port, users=users)
        )
        self._account.own(users, configuration)

    def _is_ready(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0
