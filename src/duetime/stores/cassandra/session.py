"""The driver, as asyncio sees it: it has a thread of its own, and calls back from there.

Each request has a bounded wait, and is sent once: a write that got no answer must not be repeated
by somebody who does not know what it was. Answers that come together wake the event loop once.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Any

from cassandra import ConsistencyLevel
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import (
    EXEC_PROFILE_DEFAULT,
    Cluster,
    DefaultConnection,
    ExecutionProfile,
    NoHostAvailable,
)
from cassandra.connection import ConnectionBusy
from cassandra.policies import (
    ConstantReconnectionPolicy,
    DCAwareRoundRobinPolicy,
    FallthroughRetryPolicy,
    TokenAwarePolicy,
)
from cassandra.query import BatchStatement, BatchType, dict_factory, tuple_factory

from duetime.errors import ConfigurationError
from duetime.stores.cassandra.address import Address

# Seconds.
CONNECT_WITHIN = 5.0
RECONNECT_EVERY = 0.5
ANSWER_WITHIN = 10.0
# The newest that ScyllaDB knows too. The next one cuts everything into segments of 128 KiB, which
# the driver copies about: a large timer takes ten times as long to read.
PROTOCOL = 4
BREATHE = 0.02  # while the connections are full

NAMED = "named"  # the profile whose rows are dictionaries

Row = tuple[Any, ...]
Step = tuple[str, tuple[Any, ...]]  # a statement and its values


class Session:
    """A session of the driver: statements that are prepared once, and answers as futures.

    Statements name the keyspace ``duetime``, and mean that of the installation.
    """

    def __init__(self, driver: Any, keyspace: str, within: float = ANSWER_WITHIN) -> None:
        self._keyspace = keyspace
        self._driver = driver
        driver.default_fetch_size = None  # each of our questions has a limit, or a short answer
        self._within = within
        self._loop = asyncio.get_running_loop()
        self._prepared: dict[str, asyncio.Future[Any]] = {}
        self._is_called = False
        self._answers: deque[tuple[asyncio.Future[Any], Any, BaseException | None]] = deque()

    async def prepare(self, statement: str) -> Any:
        """A statement as the servers know it, asked for once."""
        known = self._prepared.get(statement)
        if known is None or (known.done() and (known.cancelled() or known.exception())):
            text = in_keyspace(self._keyspace, statement)
            known = asyncio.ensure_future(asyncio.to_thread(self._driver.prepare, text))
            known.add_done_callback(lambda done: done.cancelled() or done.exception())
            self._prepared[statement] = known
        return await asyncio.shield(known)

    async def run(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        """Run one statement; its rows."""
        prepared = await self.prepare(statement)
        rows: list[Row] = await self._send(prepared.bind(values), EXEC_PROFILE_DEFAULT)
        return rows

    async def run_batch(self, steps: Sequence[Step]) -> list[dict[str, Any]]:
        """Run statements on one partition, all or none; the rows of its answer, by name."""
        prepared = {text: await self.prepare(text) for text in {text for text, _ in steps}}
        batch = BatchStatement(BatchType.UNLOGGED)
        for text, values in steps:
            batch.add(prepared[text].bind(values))
        rows: list[dict[str, Any]] = await self._send(batch, NAMED)
        return rows

    async def _send(self, statement: Any, profile: Any) -> Any:
        give_up_at = self._loop.time() + self._within
        while True:
            try:
                return await self._send_once(statement, profile)
            except NoHostAvailable as error:
                # The buffers of the connections are full: it was not sent, and may be again.
                is_full = any(isinstance(each, ConnectionBusy) for each in error.errors.values())
                if not is_full or self._loop.time() > give_up_at:
                    raise
            await asyncio.sleep(BREATHE)

    async def _send_once(self, statement: Any, profile: Any) -> Any:
        asked: asyncio.Future[list[Any]] = self._loop.create_future()
        response = self._driver.execute_async(
            statement, timeout=self._within, execution_profile=profile
        )
        response.add_callbacks(
            lambda rows: self._answer(asked, rows, None),
            lambda error: self._answer(asked, None, error),
        )
        return await asked

    def _answer(self, asked: "asyncio.Future[Any]", rows: Any, error: BaseException | None) -> None:
        """Pass an answer on; called on the driver's thread."""
        self._answers.append((asked, rows, error))
        if not self._is_called:
            self._is_called = True
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                self._loop.call_soon_threadsafe(self._hand_out)

    def _hand_out(self) -> None:
        self._is_called = False  # before looking: what is added from here on calls again
        while self._answers:
            asked, rows, error = self._answers.popleft()
            if asked.done():
                continue
            if error is None:
                asked.set_result(list(rows or ()))
            else:
                asked.set_exception(error)


class WideConnection(DefaultConnection):  # type: ignore[misc]
    """A connection that reads and writes more at once: a timer may have megabytes."""

    in_buffer_size = 256 * 1024
    out_buffer_size = 256 * 1024


def in_keyspace(keyspace: str, statement: str) -> str:
    """A statement, with the keyspace of an installation."""
    return statement.replace(" duetime.", f" {keyspace}.")


def open_session(address: Address) -> Any:
    """Connect to a cluster. It blocks: call it on a thread of its own."""
    cluster = Cluster(
        list(address.hosts),
        connection_class=WideConnection,
        protocol_version=PROTOCOL,
        port=address.hosts[-1][1],
        auth_provider=PlainTextAuthProvider(address.user, address.password or "")
        if address.user
        else None,
        ssl_context=ssl.create_default_context(cafile=address.tls_ca) if address.has_tls else None,
        execution_profiles={
            EXEC_PROFILE_DEFAULT: _profile(address, tuple_factory),
            NAMED: _profile(address, dict_factory),
        },
        reconnection_policy=ConstantReconnectionPolicy(RECONNECT_EVERY, max_attempts=None),
        connect_timeout=CONNECT_WITHIN,
        control_connection_timeout=CONNECT_WITHIN,
        idle_heartbeat_interval=5,
        idle_heartbeat_timeout=5,
        application_name="duetime",
    )
    # One session only: the driver gives up on a server for all of them, but not for one of them.
    try:
        session = cluster.connect()
        check_datacenter(address, cluster.metadata.all_hosts())
    except BaseException:
        cluster.shutdown()
        raise
    return session


def check_datacenter(address: Address, hosts: Collection[Any]) -> None:
    """Refuse to work where chance would say with which of several datacenters.

    The driver draws one for each session, and what was agreed on in one is not known in another.
    """
    known = sorted({host.datacenter for host in hosts if host.datacenter})
    if len(known) > 1 and address.datacenter is None and not address.is_global:
        raise ConfigurationError(
            f"datacenter: the cluster has {', '.join(known)}; name the one to work with in "
            f"DATABASE_URL (?datacenter={known[0]}), the same for all nodes, or set "
            "consistency=global"
        )


def _profile(address: Address, row_factory: Any) -> ExecutionProfile:
    """Where requests go, and who must agree."""
    levels = (
        (ConsistencyLevel.QUORUM, ConsistencyLevel.SERIAL)
        if address.is_global
        else (ConsistencyLevel.LOCAL_QUORUM, ConsistencyLevel.LOCAL_SERIAL)
    )
    return ExecutionProfile(
        load_balancing_policy=TokenAwarePolicy(
            DCAwareRoundRobinPolicy(local_dc=address.datacenter or "")
        ),
        retry_policy=FallthroughRetryPolicy(),  # it never repeats anything
        consistency_level=levels[0],
        serial_consistency_level=levels[1],
        row_factory=row_factory,
    )
