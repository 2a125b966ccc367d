"""W0, the harness itself: the load generator against the sink. Neither may be the bottleneck."""

from bench.figure import Figure
from bench.stage import Stage
from duetime.benching import requests
from duetime.benching.load import flood

COUNT = 50_000
CONNECTIONS = 64


async def run(stage: Stage) -> list[Figure]:
    """Send creates to the sink, which takes anything."""
    stage.progress.begin("w0 load generator against sink", COUNT)
    await stage.sink.forget()
    request = requests.create(requests.body(stage.sink.port, requests.now_ms(), 1))
    answered = await flood(stage.sink.port, [request] * COUNT, CONNECTIONS, stage.progress.at)
    answered.check(b"200", COUNT)
    return [
        Figure(
            workload="w0",
            what="load generator and sink alone",
            unit="requests/s",
            measured=COUNT / answered.seconds,
            rival="47,000 (their receiver)",
        )
    ]
