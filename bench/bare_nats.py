"""A bare nats-py publishes what Duetime would publish, and does nothing else: the ceiling of NATS.

Run as ``python -m bench.bare_nats URL SUBJECT COUNT FLUSH_EVERY``. The headers are Duetime's, and
all of them are made before the clock starts. After so many messages it waits until the server has
them, as Duetime does.
"""

import sys

import nats
import uvloop

from bench.bare_client import BODY, fields_of
from duetime.benching.requests import now_ms


async def main() -> None:
    """Do what the arguments say."""
    url, subject = sys.argv[1:3]
    count, flush_every = map(int, sys.argv[3:])
    start = now_ms()
    messages = [fields_of(start) for _ in range(count)]
    client = await nats.connect(url)
    for number, headers in enumerate(messages, start=1):
        await client.publish(subject, BODY, headers=headers)
        if number % flush_every == 0:
            await client.flush()
    await client.flush()
    await client.close()


if __name__ == "__main__":
    uvloop.run(main())
