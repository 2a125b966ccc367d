"""The harness: the sink judges what arrives, and the load generator counts what is answered."""

import asyncio

import msgspec
import pytest

from bench.figure import Aim, Figure, typical
from duetime.benching.load import flood, pace
from duetime.benching.receipts import Receipts
from duetime.benching.sink import Ledger, SinkProtocol

DUE = "2030-01-01T00:00:00.250Z"
DUE_NS = 1_893_456_000_250_000_000


def head(timer="t1", attempt=1, due=DUE):
    text = f"POST /hook HTTP/1.1\r\nX-Timer-Due: {due}\r\nWebhook-Id: {timer}\r\n"
    return f"{text}X-Timer-Attempt: {attempt}\r\n".lower().encode()


def request(timer="t1", body=b""):
    return head(timer) + b"Content-Length: %d\r\n\r\n" % len(body) + body


@pytest.fixture
async def sink():
    ledger = Ledger()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: SinkProtocol(ledger), "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], ledger


def test_lateness_is_counted_from_the_due_header():
    """The sink counts lateness from the due time that a callback names."""
    ledger = Ledger()
    ledger.note(head(), DUE_NS + 3_000_000)
    assert ledger.receipts.lateness_ms == [3.0]
    assert ledger.receipts.early == 0


def test_a_callback_before_its_time_is_early():
    """The sink counts a callback that comes before its time as early."""
    ledger = Ledger()
    ledger.note(head(), DUE_NS - 1)
    assert ledger.receipts.early == 1


def test_only_the_same_attempt_twice_is_a_duplicate():
    """The sink counts an attempt that comes twice, and not the next attempt, as a duplicate."""
    ledger = Ledger()
    for timer, attempt in (("a", 1), ("a", 2), ("b", 1), ("a", 1)):
        ledger.note(head(timer, attempt), DUE_NS)
    assert (ledger.receipts.count, ledger.receipts.duplicates) == (4, 1)


def test_every_broken_promise_is_named():
    """What was lost, early, duplicated or attempted again for nothing is told, each by itself."""
    receipts = Receipts(count=4, distinct=2, early=1, duplicates=1)
    assert receipts.violations(3) == [
        "1 of 3 early",
        "1 of 3 duplicated",
        "1 of 3 lost",
        "1 of 3 attempted again for no reason",
    ]
    assert Receipts(count=3, distinct=3).violations(3) == []


def test_a_rate_spans_the_first_to_the_last_arrival():
    """A rate is counted over the time from the first arrival to the last."""
    assert Receipts(count=11, first_ns=0, last_ns=2_000_000_000).per_second == 5


async def test_a_flood_is_answered_and_counted_once_each(sink):
    """Every request of a flood is answered, and counted once."""
    port, ledger = sink
    load = [request(f"t{number}", b"x" * number) for number in range(300)]
    answered = await flood(port, load, 7)
    answered.check(b"200", 300)
    assert (ledger.receipts.count, ledger.receipts.duplicates) == (300, 0)


async def test_a_paced_load_takes_its_time(sink):
    """A paced load sends no faster than it was told to."""
    port, ledger = sink
    answered = await pace([port], [request(f"t{number}") for number in range(20)], 200, 2)
    answered.check(b"200", 20)
    assert answered.seconds >= 19 / 200
    assert ledger.receipts.count == 20


async def test_a_paced_load_is_spread_over_the_ports(sink):
    """Each of them gets about as much as the others, and nothing is sent twice."""
    port, ledger = sink
    other = Ledger()
    loop = asyncio.get_running_loop()
    async with await loop.create_server(lambda: SinkProtocol(other), "127.0.0.1", 0) as server:
        ports = [port, server.sockets[0].getsockname()[1]]
        load = [request(f"t{number}") for number in range(80)]
        (await pace(ports, load, 2_000, 8)).check(b"200", 80)
    assert ledger.receipts.count + other.receipts.count == 80
    assert min(ledger.receipts.count, other.receipts.count) > 10


async def test_a_request_in_pieces_is_one_request(sink):
    """The sink takes a request that comes in pieces for one."""
    port, ledger = sink
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    whole = request(body=b"0123456789")
    for piece in (whole[:30], whole[30:-4], whole[-4:]):
        writer.write(piece)
        await writer.drain()
        await asyncio.sleep(0.01)
    assert (await reader.readline()).startswith(b"HTTP/1.1 200")
    assert ledger.receipts.count == 1
    writer.close()
    await writer.wait_closed()


async def test_the_sink_tells_and_forgets(sink):
    """The sink tells what it has seen, and begins anew."""
    port, _ = sink
    await flood(port, [request("a"), request("b")], 1)
    asked = await flood(port, [b"GET /-/receipts HTTP/1.1\r\n\r\n"], 1)
    assert msgspec.json.decode(asked.last_body, type=Receipts).distinct == 2
    await flood(port, [b"GET /-/forget HTTP/1.1\r\n\r\n"], 1)
    asked = await flood(port, [b"GET /-/count HTTP/1.1\r\n\r\n"], 1)
    assert asked.last_body == b"0"


async def test_other_answers_are_an_error(sink):
    """An answer that was not expected ends the load with an error."""
    port, _ = sink
    answered = await flood(port, [request()], 1)
    with pytest.raises(RuntimeError, match="expected 1 answers 201"):
        answered.check(b"201", 1)


def test_the_typical_run_is_the_one_with_the_median_ratio():
    """Of several runs the one with the median ratio is shown."""
    runs = [
        [Figure(workload="w", what="x", unit="/s", measured=measured, ceiling=ceiling)]
        for measured, ceiling in ((10, 100), (90, 100), (100, 200))
    ]
    assert typical(runs)[0].measured == 100


def test_aims_look_at_the_ceiling():
    """An aim may be a number, or be judged by the ceiling of its own run."""
    assert Aim("ratio >=", 0.5).is_met(5, 10)
    assert not Aim("ratio <=", 1.2).is_met(13, 10)
    assert Aim("ceiling +", 10).is_met(12, 3)
    assert Aim("<", 1).is_met(0.9, None)
