"""A session with MySQL: how it is opened, and what every statement in it runs with."""

import asyncio
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from asyncmy import errors
from asyncmy.connection import Connection

from duetime.stores.mysql.address import Address
from duetime.stores.mysql.dialect import Dialect, dialect_of

# Seconds. The server gives up before we do, so that it can say why.
CONNECT_WITHIN = 5.0
LOCK_WITHIN = 5.0
ANSWER_WITHIN = 15.0

_LOST = 2013  # the client's number for a connection that was lost

_SEVERAL_STATEMENTS = 1 << 16  # the protocol's flag: a packet may hold several

# Texts are bytes, and what does not fit is refused. Each statement sees what was committed before
# it, and locks the rows that it finds and not the gaps between them, in which others would wait.
_SETTINGS = (
    "SET NAMES binary",
    "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'",
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    f"SET SESSION innodb_lock_wait_timeout = {LOCK_WITHIN:.0f}",
    f"SET SESSION lock_wait_timeout = {LOCK_WITHIN:.0f}",
    "SET SESSION autocommit = 1",
)


class Answer(NamedTuple):
    """What came of one statement."""

    rows: Sequence[tuple[Any, ...]]
    affected: int


class _Line(Connection):
    """The driver's connection, with two things that it keeps to itself."""

    _connected: bool
    _stream_broken: bool
    _transport: asyncio.Transport | None

    @property
    def is_broken(self) -> bool:
        """Tell whether the server has hung up, or we have."""
        return not self._connected or self._stream_broken

    def close(self) -> None:
        """Hang up at once: the driver's way waits for the server over TLS, and nobody for it."""
        if self._transport is not None:
            self._transport.abort()
        super().close()
        self._connected = False


class Whereabouts(NamedTuple):
    """Where a session can be found again, from another one."""

    server: str  # of several behind one address
    lock: str  # that it holds as long as it lasts; empty where there are none


class Session:
    """A connection that is ready for use."""

    def __init__(self, line: _Line, dialect: Dialect) -> None:
        self._line = line
        self.dialect = dialect
        self.whereabouts = Whereabouts("", "")
        self.largest = 0  # bytes in a packet
        self.may_go_on = False  # the server may still be at work on something
        self.is_spoiled = False  # it leads to a server that takes no writes

    @property
    def is_closed(self) -> bool:
        """Tell whether it is of no more use."""
        return self._line.is_broken

    def close(self) -> None:
        """Hang up."""
        self._line.close()

    async def say_goodbye(self) -> None:
        """Hang up in order, so that the server does not count it as a failure."""
        await self._line.ensure_closed()

    async def ask(self, *statements: str | bytes) -> list[Answer]:
        """Send statements in one packet, and return what came of each.

        The first that fails raises, and those behind it are not begun.
        """
        packet = b";".join(
            each if isinstance(each, bytes) else each.encode() for each in statements
        )
        with _understood():
            cursor: Any = self._line.cursor()
            await cursor.execute(packet)
            answers = [Answer(await cursor.fetchall(), cursor.rowcount)]
            while await cursor.nextset():
                answers.append(Answer(await cursor.fetchall(), cursor.rowcount))
        return answers

    async def rows(self, statement: str) -> Sequence[tuple[Any, ...]]:
        """The rows that a question is answered with."""
        return (await self.ask(statement))[0].rows


@contextmanager
def _understood() -> Iterator[None]:
    """Make one error of all that the driver raises over a line or an answer that is broken."""
    try:
        yield
    except (errors.MySQLError, OSError, EOFError):
        raise
    except Exception as error:
        raise errors.OperationalError(_LOST, f"the answer was cut short: {error!r}") from error


async def connect(address: Address) -> Session:
    """Open a session."""
    line = _Line(  # type: ignore[no-untyped-call]  # the driver has no types for this
        host=address.host,
        port=address.port,
        user=address.user,
        password=address.password.encode(),
        database=address.database,
        ssl=address.tls,
        connect_timeout=CONNECT_WITHIN,
        autocommit=None,
        client_flag=_SEVERAL_STATEMENTS,
        program_name="duetime",
    )
    try:
        async with asyncio.timeout(CONNECT_WITHIN):
            with _understood():
                await line.connect()
            return await _ready(line)
    except BaseException:
        line.close()
        raise


async def _ready(line: _Line) -> Session:
    session = Session(line, dialect_of(line.get_server_info()))
    lock = f"duetime-{secrets.token_hex(12)}" if session.dialect.holds_names else ""
    *_, last = await session.ask(
        *_SETTINGS,
        *session.dialect.settings,
        session.dialect.limit(ANSWER_WITHIN),
        *([f"DO GET_LOCK('{lock}', 0)"] if lock else []),
        "SELECT @@max_allowed_packet, concat_ws(' ', @@hostname, @@port, @@server_id)",
    )
    [(largest, server)] = last.rows
    session.largest = int(largest)
    session.whereabouts = Whereabouts(server.decode(), lock)
    return session
