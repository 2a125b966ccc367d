"""Events for people: one to a line."""

from duetime.cli.cells import inner
from duetime.cli.output import Screen, printable, relative
from duetime.client.event_types import Event
from duetime.clock import Millis

_COLOURS = {
    "created": "cyan",
    "due": "yellow",
    "attempt_started": "yellow",
    "attempt_failed": "red",
    "completed": "green",
    "failed": "red",
    "canceled": "dim",
    "paused": "magenta",
    "held": "magenta",
    "renewed": "dim",
    "handed_back": "dim",
    "told": "dim",
}
_WIDTH = 15  # of the longest type


def event_line(screen: Screen, event: Event, now: Millis) -> str:
    """When, what, to which timer, and what there is to say about it."""
    type_ = printable(event["type"])
    key = f"{event.get('group', '')}/{event.get('timer_id') or event.get('timer', '')}"
    parts = [
        screen.colour("dim", f"{printable(str(event.get('time', ''))):24}"),
        screen.colour(_COLOURS.get(type_, "blue"), f"{type_:{_WIDTH}}"),
        printable(key),
        *_details(event, now),
    ]
    return "  ".join(parts).rstrip()


def _details(event: Event, now: Millis) -> list[str]:
    data = inner(event, "data")
    details = []
    if event["type"].startswith("attempt") or event["type"] == "completed":
        details.append(f"attempt {event.get('attempt', '-')}")
    if "change" in data:
        details.append(str(data["change"]))
    status = f"HTTP {data['status_code']}" if "status_code" in data else ""
    if status and not str(data.get("error")).startswith(status):
        details.append(status)
    if "latency_ms" in data:
        details.append(f"{data['latency_ms']} ms")
    if data.get("error"):
        details.append(str(data["error"]))
    if "next_attempt_at" in data:
        details.append(f"again {relative(data['next_attempt_at'], now)}")
    if "execute_at" in data:
        details.append(f"due {relative(data['execute_at'], now)}")
    return [printable(each) for each in details]
