"""The load: users who create timers and change their minds, on all nodes, as a seed has it.

What becomes of one timer is asked for by one user, one request after the other. Where an answer
was lost, the user leaves the timer alone: what was asked may still be done much later, by a node
that was frozen meanwhile. A create with a timer_id is the exception: it is asked for once more,
as a careful user would, and must not make a second timer.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from typing import Any, NamedTuple

from pyreqwest.exceptions import PyreqwestError

from duetime.client import AsyncClient, ServiceError, ServiceUnreachable, calls
from duetime.clock import Millis, SystemClock
from tests.cluster.history import Action, Ask, History, Line, Verdict
from tests.cluster.nodes import Cluster, Node
from tests.system.service import API_KEY

USERS = 16
RUSH = 12  # users who all ask at once
RATE = 80  # requests a second, about; two cores carry three nodes with it, and the test
PATIENCE = 2.0  # seconds that a user waits for an answer
LONGEST_DELAY: Millis = 2_000
UNWRITTEN = 9

_clock = SystemClock()


class Sent(NamedTuple):
    """What came of a request."""

    verdict: Verdict
    data: Any
    began: Millis
    answered: Millis


class Life(NamedTuple):
    """A timer as its user knows it."""

    key: str
    id: str


class Load:
    """Puts a cluster under load, and notes down what came of every request."""

    def __init__(
        self, cluster: Cluster, history: History, url: str, seed: int, rate: float = RATE
    ) -> None:
        self._history = history
        self._url = url
        self._rate = rate
        self._dice = random.Random(seed)
        self._nodes = cluster.nodes
        self._clients: dict[Node, AsyncClient] = {}
        self._numbers = count()
        self._over = asyncio.Event()
        self._users: asyncio.TaskGroup

    async def run(self) -> None:
        """Keep the cluster busy until it is over."""
        async with AsyncExitStack() as stack:
            for node in self._nodes:
                client = AsyncClient(node.address, api_key=API_KEY, timeout=PATIENCE)
                self._clients[node] = await stack.enter_async_context(client)
            async with asyncio.TaskGroup() as self._users:
                for _ in range(USERS):
                    self._users.create_task(self._be_a_user())

    def end(self) -> None:
        """Ask for nothing new."""
        self._over.set()

    async def rush(self, node: Node) -> None:
        """Have many ask one node at once, and return at the first answer.

        Whatever happens to the node now, it happens in the middle of requests.
        """
        made = await asyncio.gather(*(self._create() for _ in range(RUSH)))
        asked = [self._users.create_task(self._create(node)) for _ in range(RUSH)]
        asked += [self._users.create_task(self._insist(life, node)) for life in made if life]
        await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)

    async def _insist(self, life: Life, node: Node) -> None:
        match self._dice.choice([Action.CANCEL, Action.PAUSE, Action.UPDATE]):
            case Action.UPDATE:
                await self._update(life, 2, node)
            case action:
                await self._act(life, action, node=node)

    async def _be_a_user(self) -> None:
        while not self._over.is_set():
            await self._wait()
            if self._dice.random() < 0.05:
                await self._create_batch()
            elif life := await self._create():
                await self._change_mind(life)

    async def _change_mind(self, life: Life) -> None:
        """Do one of the things that users do, at some time before or after the timer is due."""
        luck = self._dice.random()
        if luck < 0.6:
            await self._wait()
        if luck < 0.2:
            await self._act(life, Action.CANCEL)
        elif luck < 0.4:
            if await self._update(life, 2) and self._dice.random() < 0.3:
                await self._update(life, 3)
        elif luck < 0.5:
            await self._act(life, Action.FIRE)
        elif luck < 0.6 and await self._act(life, Action.PAUSE):
            await self._wait()
            is_changed = self._dice.random() < 0.5
            if not is_changed or await self._update(life, 2):
                await self._act(life, Action.RESUME, revision=1 + is_changed)

    # What is asked for

    async def _create(self, node: Node | None = None) -> Life | None:
        body = self._content(key := self._new_key(), 1)
        if has_own_key := self._dice.random() < 0.5:
            body["timer_id"] = key
        sent = await self._send(calls.create(body, None), node)
        self._note(sent, key, Action.CREATE, body)
        if sent and sent.verdict is Verdict.DOUBTFUL and has_own_key:
            sent = await self._send(calls.create(body, None))
            self._note(sent, key, Action.CREATE, body)
        return Life(key, sent.data["id"]) if sent and sent.data else None

    async def _create_batch(self) -> None:
        bodies = [self._content(self._new_key(), 1) for _ in range(5)]
        sent = await self._send(calls.create_batch(bodies))
        for place, body in enumerate(bodies):
            of_this = sent
            if sent and sent.data:
                code = sent.data["timers"][place]["code"]
                of_this = sent._replace(verdict=_verdict(400, code) if code else sent.verdict)
            self._note(of_this, body["name"], Action.CREATE, body)

    async def _update(self, life: Life, revision: int, node: Node | None = None) -> bool:
        body = self._content(life.key, revision)
        sent = await self._send(calls.update(life.id, body, None), node)
        self._note(sent, life.key, Action.UPDATE, body)
        return sent is not None and sent.verdict is Verdict.ACKNOWLEDGED

    async def _act(
        self, life: Life, action: Action, revision: int = 1, node: Node | None = None
    ) -> bool:
        call = calls.act(life.id, action)
        if action is Action.CANCEL:
            call = calls.cancel(life.id, None)
        sent = await self._send(call, node)
        self._note(sent, life.key, action, {}, revision)
        return sent is not None and sent.verdict is Verdict.ACKNOWLEDGED

    def _content(self, key: str, revision: int) -> dict[str, Any]:
        payload = {"key": key, "revision": revision}
        return {
            "delay": f"{self._dice.randrange(LONGEST_DELAY)}ms",
            "name": key,
            "callback": {"type": "http", "url": self._url, "payload": payload},
        }

    def _new_key(self) -> str:
        return f"timer-{next(self._numbers):05d}"

    async def _wait(self) -> None:
        """Wait for as long as makes the rate, on average."""
        pause = self._dice.random() * 2 * USERS / self._rate
        try:
            await asyncio.wait_for(self._over.wait(), pause)
        except TimeoutError:
            return

    # How it is sent

    async def _send(self, call: calls.Call[Any], on: Node | None = None) -> Sent | None:
        """Make a call on this node, or else on some; None if nobody listens."""
        for node in [on] if on else self._in_some_order():
            began = _clock.now()
            data = None
            try:
                data = await self._clients[node].send(call)
                verdict = Verdict.ACKNOWLEDGED
            except ServiceUnreachable as error:
                if _was_never_sent(error):
                    continue
                verdict = Verdict.DOUBTFUL
            except ServiceError as error:
                verdict = _verdict(error.status, error.code)
            return Sent(verdict, data, began, _clock.now())
        return None

    def _in_some_order(self) -> Iterator[Node]:
        """All nodes, those first that answer; but now and then one is tried that does not."""
        nodes = self._dice.sample(self._nodes, len(self._nodes))
        if self._dice.random() < 0.95:
            nodes.sort(key=lambda node: not node.is_answering)
        yield from nodes

    def _note(
        self, sent: Sent | None, key: str, action: Action, body: dict[str, Any], revision: int = 1
    ) -> None:
        if sent is None:
            return
        ask = Ask(
            key=key,
            action=action,
            verdict=sent.verdict,
            began=sent.began,
            answered=sent.answered,
            revision=body["callback"]["payload"]["revision"] if body else revision,
            delay=int(body["delay"].removesuffix("ms")) if body else 0,
        )
        self._history.asks.append(ask)


def _was_never_sent(error: ServiceUnreachable) -> bool:
    """Tell whether there was not even a connection: the library has the same error for more."""
    assert isinstance(error.__cause__, PyreqwestError)
    causes = getattr(error.__cause__, "details", {}).get("causes") or []
    return any("(Connect)" in cause["message"] for cause in causes)


def _verdict(status: int, code: int) -> Verdict:
    if code == UNWRITTEN:
        return Verdict.UNWRITTEN
    return Verdict.REFUSED if status < 500 else Verdict.DOUBTFUL


@asynccontextmanager
async def looking(node: Node) -> AsyncIterator[AsyncClient]:
    """A patient user, who only looks."""
    async with AsyncClient(node.address, api_key=API_KEY) as client:
        yield client


async def look(node: Node, history: History) -> None:
    """Note down what the service says of all its timers."""
    async with looking(node) as client:
        timers = [timer async for timer in client.list(limit=100, sort="created_at")]
    history.note_look({timer["name"]: timer["status"] for timer in timers})


async def read_logs(node: Node, history: History) -> None:
    """Note down the execution logs of the timers that need an explanation."""
    async with looking(node) as client:
        for id_ in history.unusual():
            history.lines += [
                Line(
                    webhook_id=f"{id_}-{line['occurrence']}",
                    attempt=line["attempt"],
                    node=line["node"],
                    kind=line["kind"],
                )
                for line in (await client.attempts(id_))["attempts"]
            ]
