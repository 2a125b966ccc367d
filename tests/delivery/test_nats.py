"""NATS callbacks on a real server: what arrives, and what comes of what does not."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest
from msgspec import Raw
from msgspec.structs import replace
from nats.js.api import DiscardPolicy

from duetime import webhooks
from duetime.clock import SystemClock
from duetime.delivery.nats import NatsSender
from duetime.delivery.terms import Terms
from duetime.nats.connection import Connection
from duetime.requests import LONGEST_TEXT
from duetime.tenancy.signing_secrets import MOST_ACTIVE
from duetime.timer import HttpCallback, Kind, NatsCallback, Outcome, Timer
from tests.delivery.conftest import make_timer, mine, the_same_for_all
from tests.nats.conftest import Stranger, answering, listening
from tests.nats.conftest import stranger as stranger  # noqa: PLC0414 - a fixture
from tests.servers.fixtures import OwnServer
from tests.servers.nats import NatsServer, own_name
from tests.waiting import until

SECRET = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
SECRETS = (webhooks.decode_secret(SECRET),)
ID = "0197734e-7000-7abc-8def-0123456789ab"

MakeNats = Callable[..., NatsSender]


def nats_timer(topic: str, *, attempt: int = 1, **options: Any) -> Timer:
    """A timer in mid-attempt."""
    of_spec = {
        name: options.pop(name) for name in ("signatures", "correlation_id") if name in options
    }
    timer = make_timer("http://unused.example/", attempt=attempt, **of_spec)
    callback = NatsCallback(topic=topic, **options)
    return replace(timer, spec=replace(timer.spec, callback=callback))


@pytest.fixture
def url(server_url: Callable[[str], str]) -> str:
    return server_url("nats")


@pytest.fixture
def topic() -> str:
    return own_name()


class Posted:
    """A mail that somebody waits for."""

    def __init__(self, timers: Sequence[Timer], is_mine: Callable[[], bool] = mine) -> None:
        self.timers = timers
        self._is_mine = is_mine
        self.outcomes: list[tuple[Timer, Outcome]] = []

    def is_mine(self, _timer: Timer) -> bool:
        return self._is_mine()

    def ended(self, timers: Sequence[Timer], outcome: Outcome) -> None:
        self.outcomes += [(timer, outcome) for timer in timers]

    async def all_ended(self) -> list[Outcome]:
        """Those of its timers, in their order."""
        await until(lambda: len(self.outcomes) == len(self.timers), every=0.001)
        return [
            next(outcome for ended, outcome in self.outcomes if ended is timer)
            for timer in self.timers
        ]


class PostingSender(NatsSender):
    """Sends by posting, as the engine does: what is not its own any more is not posted."""

    async def send(self, timer: Timer, is_mine: Callable[[], bool]) -> Outcome:
        mail = Posted([timer], is_mine)
        if not is_mine():
            return Outcome(kind=Kind.UNSENT)
        self.post(mail)
        [outcome] = await mail.all_ended()
        return outcome


@pytest.fixture(params=[NatsSender, PostingSender])
async def make_sender(request: pytest.FixtureRequest) -> AsyncIterator[Callable[..., Any]]:
    """Makes senders, each with a connection of its own; all that one sends may be posted too."""
    made: list[Connection] = []

    async def make(url: str, *, secrets: tuple[bytes, ...] = (), **options: Any) -> NatsSender:
        connection = Connection([url], SystemClock())
        made.append(connection)
        await connection.connect()
        if secrets:
            options["terms"] = the_same_for_all(Terms(secrets=secrets))
        sender: NatsSender = request.param(connection, SystemClock(), **options)
        return sender

    yield make
    for connection in made:
        await connection.close()


@pytest.fixture
async def sender(make_sender: Callable[..., Any], url: str) -> NatsSender:
    return await make_sender(url)


async def test_a_message_arrives(sender: NatsSender, stranger: Stranger, url: str, topic: str):
    """With its payload byte for byte, the timer's headers, and what tells of the attempt."""
    heard = await listening(await stranger(url), f"{topic}.>")
    timer = nats_timer(
        topic,
        key="orders.7",
        attempt=3,
        headers={"X-Event-Type": "due", "x-timer-due": "mine"},
        payload=Raw(b'{"a":  1}'),
        correlation_id="Grün 7",
    )
    outcome = await sender.send(timer, mine)
    assert (outcome.kind, outcome.error, outcome.retryable) == (Kind.OK, None, False)
    assert outcome.latency_ms is not None
    [message] = await heard.are(1)
    assert message.subject == f"{topic}.orders.7"
    assert message.data == b'{"a":  1}'
    trace = message.headers.pop("traceparent")
    assert trace.startswith(f"00-{ID.replace('-', '')}-")
    sent_at = message.headers.pop("webhook-timestamp")
    assert sent_at.isdecimal()
    assert message.headers == {
        "X-Timer-Id": ID,
        "X-Timer-Attempt": "3",
        "X-Correlation-ID": "Gr%C3%BCn%207",
        "X-Event-Type": "due",
        "x-timer-due": "mine",
        "webhook-id": f"{ID}-1",
    }


async def test_without_a_payload(sender: NatsSender, stranger: Stranger, url: str, topic: str):
    """The message is empty."""
    heard = await listening(await stranger(url), topic)
    assert (await sender.send(nats_timer(topic), mine)).ok
    [message] = await heard.are(1)
    assert message.data == b""
    assert message.headers["X-Timer-Due"] == "2025-06-15T15:06:40Z"


async def test_it_is_signed(make_sender, stranger: Stranger, url: str, topic: str):
    """A receiver verifies it with the headers as they come, as it does with those of a request."""
    sender = await make_sender(url, secrets=SECRETS)
    heard = await listening(await stranger(url), topic)
    payload = Raw(b'{"order": 7}')
    timer = nats_timer(topic, payload=payload, signatures=("webhook", "timer"))
    assert (await sender.send(timer, mine)).ok
    [message] = await heard.are(1)
    assert webhooks.verify(message.data, message.headers, SECRET).id == f"{ID}-1"
    webhooks.verify_body_signature(message.data, message.headers, SECRET)
    with pytest.raises(webhooks.NoMatchingSignature):
        webhooks.verify(message.data + b" ", message.headers, SECRET)


async def test_what_cannot_be_signed_is_not_sent(
    make_sender, stranger: Stranger, url: str, topic: str
):
    """It may be tried again, when the secret can be read."""
    terms = the_same_for_all(Terms(unsignable="its key is gone"))
    sender = await make_sender(url, terms=terms)
    heard = await listening(await stranger(url), topic)
    outcome = await sender.send(nats_timer(topic), mine)
    assert (outcome.kind, outcome.retryable) == (Kind.SIGNING, True)
    assert (await sender.send(nats_timer(topic, signatures=()), mine)).ok
    await heard.are(1)
    assert len(heard) == 1


async def test_nobody_passes_for_us(make_sender, stranger: Stranger, url: str, topic: str):
    """Headers that were stored past the check replace neither ids nor signatures."""
    sender = await make_sender(url)
    heard = await listening(await stranger(url), topic)
    own = {"Webhook-Signature": "v1,forged", "webhook-id": "x", "Nats-Msg-Id": "y"}
    assert (await sender.send(nats_timer(topic, headers=own), mine)).ok
    [message] = await heard.are(1)
    names = {name.lower() for name in message.headers}
    assert message.headers["webhook-id"] == f"{ID}-1"
    assert not names & {"webhook-signature", "nats-msg-id"}


async def test_a_stored_line_break_is_not_sent(sender: NatsSender, topic: str):
    """It could be read as another header, or as another message; its value is not shown."""
    outcome = await sender.send(nats_timer(topic, headers={"a": "b\r\nsecret: 1"}), mine)
    assert (outcome.kind, outcome.retryable) == (Kind.NATS, False)
    assert outcome.error == (
        "cannot send: callback.headers: the value of a must be printable ASCII text"
    )
    outcome = await sender.send(nats_timer(f"{topic} 5\r\nPING"), mine)
    assert outcome.error == (
        "cannot send: callback.topic: must not have spaces or control characters"
    )


@pytest.mark.promise("cancel-holds")
async def test_what_is_no_longer_mine_is_not_sent(
    sender: NatsSender, stranger: Stranger, url: str, topic: str
):
    """It is asked right before the message is put on its way."""
    heard = await listening(await stranger(url), topic)
    assert (await sender.send(nats_timer(topic), lambda: False)).kind is Kind.UNSENT
    assert (await sender.send(nats_timer(topic, jetstream=True), lambda: False)).kind is Kind.UNSENT
    assert (await sender.send(nats_timer(topic, payload=Raw(b"1")), mine)).ok
    assert (await heard.are(1)).data == [b"1"]


async def test_after_it_is_closed_nothing_is_sent(sender: NatsSender, topic: str):
    """The timer can be handed back."""
    await sender.close()
    await sender.close()
    assert (await sender.send(nats_timer(topic), mine)).kind is Kind.UNSENT


async def test_what_is_not_a_nats_callback(sender: NatsSender):
    """Is not for this sender."""
    assert sender.problem(HttpCallback(url="http://a.example/")) == "callback.type: must be nats"
    outcome = await sender.send(make_timer("http://a.example/"), mine)
    assert (outcome.kind, outcome.retryable) == (Kind.NATS, False)


async def test_those_that_are_posted_together_share_a_flush(
    sender: NatsSender, stranger: Stranger, url: str, topic: str, monkeypatch: pytest.MonkeyPatch
):
    """It leaves behind the last of them, and tells all of them that they have arrived."""
    heard = await listening(await stranger(url), topic)
    flush, flushes = sender._nats.flush, []

    async def counted(within: float) -> frozenset[str]:
        flushes.append(within)
        return await flush(within)

    monkeypatch.setattr(sender._nats, "flush", counted)
    timers = [nats_timer(topic, payload=Raw(b"%d" % n)) for n in range(500)]
    bad = HttpCallback(url="http://unused.example/")
    timers[7] = replace(timers[7], spec=replace(timers[7].spec, callback=bad))
    mails = [Posted(timers[:200]), Posted(timers[200:])]
    for mail in mails:
        sender.post(mail)
    kinds = [outcome.kind for mail in mails for outcome in await mail.all_ended()]
    assert kinds == [Kind.OK] * 7 + [Kind.NATS] + [Kind.OK] * 492
    assert len(flushes) == 1
    await heard.are(499)
    assert heard.data == [b"%d" % n for n in range(500) if n != 7]


# JetStream ----------------------------------------------------------------------------------------


async def test_a_stream_keeps_one_message_of_each_occurrence(
    sender: NatsSender, stranger: Stranger, url: str, topic: str
):
    """A repeated attempt is dropped by the server, and succeeds."""
    theirs = (await stranger(url)).jetstream()
    await theirs.add_stream(name=topic, subjects=[f"{topic}.>"])
    for attempt in (1, 2):
        timer = nats_timer(f"{topic}.a", attempt=attempt, jetstream=True, payload=Raw(b"1"))
        assert (await sender.send(timer, mine)).ok
    later = replace(timer, progress=replace(timer.progress, occurrence=2))
    assert (await sender.send(later, mine)).ok
    info = await theirs.stream_info(topic)
    assert info.state.messages == 2
    kept = await theirs.get_msg(topic, 1)
    assert kept.headers["X-Timer-Attempt"] == "1"
    assert kept.headers["Nats-Msg-Id"] == kept.headers["webhook-id"] == f"{ID}-1"
    await theirs.delete_stream(topic)


async def test_no_stream(sender: NatsSender, stranger: Stranger, url: str, topic: str):
    """Is a failed attempt that says so, also if somebody else listens there."""
    outcome = await sender.send(nats_timer(topic, jetstream=True), mine)
    assert outcome.error == f"no stream of JetStream takes messages on {topic}"
    assert (outcome.kind, outcome.retryable) == (Kind.NATS, True)


async def test_a_full_stream(sender: NatsSender, stranger: Stranger, url: str, topic: str):
    """Is tried again; one that takes no messages of that size is not."""
    theirs = (await stranger(url)).jetstream()
    await theirs.add_stream(
        name=topic, subjects=[topic], max_msgs=1, discard=DiscardPolicy.NEW, max_msg_size=2000
    )
    await theirs.publish(topic, b"")
    full = await sender.send(nats_timer(topic, jetstream=True), mine)
    assert full.error == "JetStream refused the message: maximum messages exceeded"
    assert (full.kind, full.retryable) == (Kind.NATS, True)
    large = nats_timer(topic, jetstream=True, payload=Raw(b"1" * 4000))
    outcome = await sender.send(large, mine)
    assert outcome.error == "JetStream refused the message: message size exceeds maximum allowed"
    assert (outcome.kind, outcome.retryable) == (Kind.NATS, False)
    await theirs.delete_stream(topic)


# Problems -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("callback", "problem"),
    [
        (NatsCallback(topic="a.b"), None),
        (NatsCallback(topic="a", key="b.c"), None),
        (NatsCallback(topic="a", headers={"X-Own": "1", "Host": "h"}), None),
        (NatsCallback(topic="a b"), "callback.topic: must not have spaces or control characters"),
        (NatsCallback(topic="a.*"), "callback.topic: must not have the wildcards * and >"),
        (NatsCallback(topic="a..b"), "callback.topic: must not have empty parts between its dots"),
        (NatsCallback(topic="a", key=">"), "callback.key: must not have the wildcards * and >"),
        (NatsCallback(topic="a", key=""), "callback.key: must not be empty"),
        (
            NatsCallback(topic="a" * 200, key="b" * 55),
            "callback.key: with the topic before it, it must be at most 255 bytes",
        ),
        (NatsCallback(topic="$JS.API.STREAM.DELETE.x"), "callback.topic: must not begin with $ or"),
        (NatsCallback(topic="$SYS", key="REQ"), "callback.topic: must not begin with $ or _INBOX"),
        (NatsCallback(topic="_INBOX", key="x"), "callback.topic: must not begin with $ or _INBOX"),
        (
            NatsCallback(topic="duetime.acme.timers.create"),
            "callback.topic: must not begin with du",
        ),
        (NatsCallback(topic="duetime"), "callback.topic: must not begin with duetime: these"),
        (
            NatsCallback(topic="eu.timers", key="create"),
            "callback.topic: must not begin with eu.ti",
        ),
        (NatsCallback(topic="duetimes.x"), None),
        (NatsCallback(topic="a", headers={"Nats-Msg-Id": "1"}), "callback.headers: Nats-Msg-Id ca"),
        (
            NatsCallback(topic="a", headers={"webhook-id": "1"}),
            "callback.headers: webhook-id cannot",
        ),
        (
            NatsCallback(topic="a", headers={"X-Timer-Signature": "1"}),
            "callback.headers: X-Timer-Signature cannot be set, as Duetime or NATS itself sets it",
        ),
        (NatsCallback(topic="a", headers={"a": "1\n"}), "callback.headers: the value of a must be"),
        (NatsCallback(topic="a", headers={"a b": "1"}), "callback.headers: 'a b' is not a valid"),
        (
            NatsCallback(topic="a", payload=Raw(b"1" * 1024 * 1024)),
            "callback.payload: is too large: the NATS server takes messages of 1048576 bytes",
        ),
    ],
)
async def test_problems(make_sender, url: str, callback: NatsCallback, problem: str | None):
    """What could never be delivered is refused in words that name the field."""
    sender = await make_sender(url, reserved=["duetime", "eu.timers"])
    found = sender.problem(callback)
    assert found == problem if problem is None else (found or "").startswith(problem)
    assert sender.target(callback) == "nats"


async def test_the_largest_that_is_accepted_leaves(make_sender, url: str, topic: str):
    """Whatever Duetime has to say of it: with the longest correlation id and all signatures."""
    secrets = tuple(bytes([number]) * 32 for number in range(MOST_ACTIVE))
    sender = await make_sender(url, secrets=secrets)
    room = sender._nats.max_payload
    while sender.problem(NatsCallback(topic=topic, payload=Raw(b"1" * room))):
        room -= 256
    timer = nats_timer(
        topic,
        payload=Raw(b"1" * room),
        correlation_id="😀" * LONGEST_TEXT,
        signatures=("webhook", "timer"),
    )
    assert (await sender.send(timer, mine)).error is None


async def test_what_is_too_large_all_the_same(own_server: OwnServer, make_sender):
    """A server that has been set to take less since: not tried again, and nobody is hung up on."""
    server = own_server("nats", settings={"max_payload": "2000"})
    sender = await make_sender(server.url())
    outcome = await sender.send(nats_timer("a", payload=Raw(b"1" * 2000)), mine)
    assert (outcome.kind, outcome.retryable) == (Kind.NATS, False)
    assert "the NATS server takes 2000 at most" in (outcome.error or "")
    assert (await sender.send(nats_timer("a"), mine)).ok


@pytest.mark.parametrize("jetstream", [False, True])
async def test_what_is_not_permitted(own_server: OwnServer, make_sender, jetstream: bool):  # noqa: FBT001
    """Is not tried again; others that leave in the same moment arrive."""
    server = own_server(
        "nats",
        configuration='authorization { users: [ { user: "a", password: "b", '
        'permissions: { publish: { deny: "closed" } } } ] }',
    )
    sender = await make_sender(f"nats://a:b@127.0.0.1:{server.port}")
    closed, opened = await asyncio.gather(
        sender.send(nats_timer("closed", jetstream=jetstream), mine),
        sender.send(nats_timer("open"), mine),
    )
    assert (closed.kind, closed.retryable) == (Kind.NATS, False)
    assert closed.error == "Duetime may not publish on closed there"
    assert opened.ok


# Faults -------------------------------------------------------------------------------------------


async def test_a_server_that_is_away(own_server: OwnServer, make_sender, stranger: Stranger):
    """Each attempt fails at once and may be tried again; when it is back, it works by itself.

    And nothing of what failed leaves then: its timer may have been canceled.
    """
    server: NatsServer = own_server("nats")
    sender = await make_sender(server.url())
    assert (await sender.send(nats_timer("a"), mine)).ok
    server.crash()
    await until(lambda: not sender._nats.is_connected)
    for jetstream in (False, True):
        outcome = await sender.send(nats_timer("a", jetstream=jetstream), mine)
        assert (outcome.kind, outcome.retryable) == (Kind.NATS, True)
        assert outcome.error == "there is no connection to a NATS server"
    server.start()
    heard = await listening(await stranger(server.url()), "a")
    await answering(sender._nats)
    assert (await sender.send(nats_timer("a", payload=Raw(b"later")), mine)).ok
    await heard.are(1)
    assert heard.data == [b"later"]


@pytest.mark.parametrize("jetstream", [False, True])
async def test_a_server_that_dies_under_load(
    own_server: OwnServer,
    make_sender,
    jetstream: bool,  # noqa: FBT001
):
    """Every attempt has an outcome at once, and what was confirmed in a stream is there."""
    server: NatsServer = own_server("nats")
    sender = await make_sender(server.url())
    await sender._jetstream.ensure_stream({"name": "s", "subjects": ["a.>"], "storage": "file"})

    def timer(number: int) -> Timer:
        made = nats_timer(f"a.{number}", jetstream=jetstream)
        return replace(made, id=f"0197734e-7000-7abc-8def-{number:012x}")

    sent: list[asyncio.Task[Outcome]] = []
    for number in range(2000):
        sent.append(asyncio.create_task(sender.send(timer(number), mine)))
        if number == 1000:
            await asyncio.wait(sent[:500])
            server.crash()
        if not number % 50:
            await asyncio.sleep(0)
    outcomes = await asyncio.wait_for(asyncio.gather(*sent), 20)
    confirmed = [number for number, outcome in enumerate(outcomes) if outcome.ok]
    assert 500 <= len(confirmed) < 2000
    assert {outcome.kind for outcome in outcomes} == {Kind.OK, Kind.NATS}
    assert all(outcome.ok or outcome.retryable for outcome in outcomes)
    server.start()
    await answering(sender._nats)
    if jetstream:  # the flush of a core message says nothing of a stream
        info = await sender._jetstream.stream_info("s")
        assert info["state"]["messages"] >= len(confirmed)


async def test_a_server_that_is_paused(
    own_server: OwnServer, make_sender, monkeypatch: pytest.MonkeyPatch
):
    """Those that wait are not kept for ever, and when it goes on, it works by itself."""
    monkeypatch.setattr("duetime.delivery.nats._WITHIN", 0.3)
    server: NatsServer = own_server("nats")
    sender = await make_sender(server.url())
    server.pause()
    outcomes = await asyncio.gather(
        *(sender.send(nats_timer("a", jetstream=number % 2 == 1), mine) for number in range(20))
    )
    assert {(outcome.kind, outcome.retryable) for outcome in outcomes} == {(Kind.NATS, True)}
    server.resume()
    await answering(sender._nats)
    assert (await sender.send(nats_timer("a"), mine)).ok


async def test_a_node_that_stops_loses_what_is_under_way(own_server: OwnServer, make_sender):
    """The server may have it: it must not be handed back as if nothing had been sent."""
    server: NatsServer = own_server("nats")
    sender = await make_sender(server.url())
    server.pause()
    sending = asyncio.create_task(sender.send(nats_timer("a"), mine))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await sender.close()
    server.crash()
    outcome = await sending
    assert (outcome.kind, outcome.retryable) == (Kind.LOST, True)
