"""W2 over NATS: the same burst as messages, beside the one over HTTP and beside a bare client."""

from functools import partial

from bench import broker, meter
from bench.figure import Aim, Figure
from bench.stage import Stage
from bench.workloads import burst
from duetime.benching import requests
from duetime.benching.process import started
from duetime.benching.receipts import Receipts
from duetime.engine.parcels import AT_ONCE

TIMES_HTTP = 3.0
OF_BARE = 0.4


async def run(stage: Stage) -> list[Figure]:
    """Callbacks a second from the first arrival to the last, over HTTP and over NATS in turn.

    The ceiling is nats-py: it waits for the server after as many messages as Duetime does.
    """
    count = stage.sizes.burst
    async with broker.broker() as url, broker.subscriber(url) as sink:
        listening = Stage(stage.databases, sink, stage.progress, stage.sizes, stage.data)
        over_http, _ = await burst.fired(stage, count)
        before = await _bare(listening, url, count)
        make = partial(requests.message, broker.TOPIC)
        over_nats, used = await burst.fired(listening, count, make=make, NATS_URL=url)
        after = await _bare(listening, url, count)
        over_http_again, _ = await burst.fired(stage, count)
    return [
        _figure("burst over NATS", over_nats, (before + after) / 2, "bare nats-py", OF_BARE),
        _figure(
            "burst over NATS, beside HTTP",
            over_nats,
            (over_http.per_second + over_http_again.per_second) / 2,
            "over HTTP",
            TIMES_HTTP,
        ),
        Figure(
            workload="w8",
            what="burst over NATS, first message after",
            unit="ms",
            measured=min(over_nats.lateness_ms),
        ),
        *meter.figures("w8", "burst over NATS, CPU per 1,000", "s", used.scaled(1000 / count)),
    ]


def _figure(
    what: str, receipts: Receipts, ceiling: float, ceiling_is: str, at_least: float
) -> Figure:
    return Figure(
        workload="w8",
        what=what,
        unit="callbacks/s",
        measured=receipts.per_second,
        ceiling=ceiling,
        ceiling_is=ceiling_is,
        aim=Aim("ratio >=", at_least),
    )


async def _bare(stage: Stage, url: str, count: int) -> float:
    count *= 3  # as in W2
    stage.progress.begin("w8 the bare client, nats-py", count)
    await stage.sink.forget()
    arguments = [url, broker.TOPIC, str(count), str(AT_ONCE)]
    async with started(["-m", "bench.bare_nats", *arguments]) as bare:
        await bare.ended()
    return (await stage.arrived(count, within=5)).per_second
