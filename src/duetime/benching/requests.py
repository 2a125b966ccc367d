"""The requests of the load: timers to create, as the bytes that go over the wire."""

import time
from collections.abc import Sequence

import msgspec

from duetime.clock import to_rfc3339

# Of the services of the developers' benchmark, which hold nothing of anybody's.
KEY = "bench-key-bench-key-bench-key-bench-key"
FAR = 86_400_000  # a day: far enough that nothing comes due while it is measured


def body(sink_port: int, due_ms: int, number: int, path: str = "/hook") -> bytes:
    """A timer such as people make: one callback with a small payload."""
    return _body({"execute_at": to_rfc3339(due_ms)}, sink_port, number, path)


def soon(sink_port: int, delay_ms: int, number: int) -> bytes:
    """The same, due so long after it was created."""
    return _body({"delay": f"{delay_ms}ms"}, sink_port, number)


def message(topic: str, due_ms: int, number: int) -> bytes:
    """The same over NATS."""
    callback = {"type": "nats", "topic": topic, "payload": _payload(number)}
    return msgspec.json.encode({"execute_at": to_rfc3339(due_ms), "callback": callback})


def _body(when: dict[str, str], sink_port: int, number: int, path: str = "/hook") -> bytes:
    return msgspec.json.encode(
        {
            **when,
            "callback": {
                "type": "http",
                "url": f"http://127.0.0.1:{sink_port}{path}",
                "payload": _payload(number),
            },
        }
    )


def _payload(number: int) -> dict[str, object]:
    return {"order": f"A-{number:08d}", "customer": 4711, "action": "expire"}


def create(body_: bytes, key: str = KEY) -> bytes:
    """The request that creates one timer."""
    return _post(b"/timers", body_, key)


def create_batch(bodies: Sequence[bytes], key: str = KEY) -> bytes:
    """The request that creates many."""
    return _post(b"/timers/batch", b'{"timers":[' + b",".join(bodies) + b"]}", key)


def batches(bodies: Sequence[bytes], size: int, key: str = KEY) -> list[bytes]:
    """The requests that create all of these, so many at a time."""
    return [create_batch(bodies[at : at + size], key) for at in range(0, len(bodies), size)]


def get(path: str) -> bytes:
    """A request without a body."""
    return b"GET %s HTTP/1.1\r\nhost: bench\r\nx-api-key: %s\r\n\r\n" % (
        path.encode(),
        KEY.encode(),
    )


def now_ms() -> int:
    """The time now, in milliseconds."""
    return time.time_ns() // 1_000_000


def _post(path: bytes, content: bytes, key: str) -> bytes:
    return (
        b"POST %s HTTP/1.1\r\nhost: bench\r\nx-api-key: %s\r\n"
        b"content-type: application/json\r\ncontent-length: %d\r\n\r\n%s"
    ) % (path, key.encode(), len(content), content)
