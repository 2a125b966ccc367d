"""Logs: one line per thing that happened, for people or for machines."""

import logging
import sys
import traceback
from datetime import UTC, datetime

import msgspec

from duetime.stores.opening import KINDS


class _Json(logging.Formatter):
    def __init__(self, worker: int | None) -> None:
        super().__init__()
        self._of: dict[str, int] = {} if worker is None else {"worker": worker}

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            **self._of,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = "".join(traceback.format_exception(*record.exc_info))
        return msgspec.json.encode(line).decode()


class _Text(logging.Formatter):
    def __init__(self, worker: int | None) -> None:
        super().__init__()
        self._of = "" if worker is None else f"worker {worker}: "

    def format(self, record: logging.LogRecord) -> str:
        line = f"{_time(record)} {record.levelname.lower():7} {self._of}{record.getMessage()}"
        if record.exc_info:
            line += "\n" + "".join(traceback.format_exception(*record.exc_info)).rstrip()
        return line


def configure(level: str, style: str, *, worker: int | None = None) -> None:
    """Send all logs to standard error; each line tells which worker wrote it, where there are."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json(worker) if style == "json" else _Text(worker))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # What it says of its own start and stop, we say ourselves.
    logging.getLogger("uvicorn").setLevel(max(logging.WARNING, logging.root.level))
    # What goes wrong with a database, its store says in its own words.
    for driver in filter(None, (kind.driver for kind in KINDS)):
        logging.getLogger(driver).setLevel(max(logging.ERROR, logging.root.level))


def _time(record: logging.LogRecord) -> str:
    at = datetime.fromtimestamp(record.created, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
