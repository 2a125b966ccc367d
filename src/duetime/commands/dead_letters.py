"""Dead letters: commands that can never be done, kept in their stream with the reason."""

from collections.abc import Mapping
from contextlib import suppress

from duetime.api.envelope import Reply
from duetime.clock import to_rfc3339
from duetime.commands.replies import STATUS, one_line
from duetime.errors import MessageTooLarge
from duetime.nats.headers import written
from duetime.nats.jetstream import JetStream, Outgoing, Pulled

WITHIN = 10.0  # seconds that a stream has to store one

# Who sent a command, by their key, is nobody's business who reads dead letters.
_LEFT_OUT = frozenset({"x-api-key", "authorization"})
_OF_NATS = "nats-"  # these say what the server is to do with a message
_OF_OURS = "duetime-"
_LINE_END = frozenset("\r\n")


class DeadLetters:
    """Puts them below the subject of their tenant."""

    def __init__(self, jetstream: JetStream, stream: str) -> None:
        self._jetstream = jetstream
        self._stream = stream

    async def put(self, pulled: Pulled, reply: Reply) -> None:
        """Store one; when this returns, it is there. NatsError if it may not be."""
        message = pulled.message
        subject = f"{message.subject.rsplit('.', 1)[0]}.dead"
        reason = {
            # One that is put again, because its node died before it could say so, is dropped.
            "Nats-Msg-Id": f"dead-{self._stream}-{pulled.sequence}-{pulled.stored_at}",
            STATUS: str(reply.status),
            "Duetime-Code": str(int(reply.code)),
            "Duetime-Error": one_line(reply.message),
            "Duetime-Subject": message.subject,
            "Duetime-Sequence": str(pulled.sequence),
            "Duetime-Time": to_rfc3339(pulled.stored_at // 1_000_000),
        }
        with suppress(MessageTooLarge):
            await self._store(subject, message.data, {**_kept(message.headers), **reason})
            return
        # It was as large as a message may be, so the reason only fits in the place of something.
        cut = {**reason, "Duetime-Size": str(len(message.data))}
        await self._store(subject, message.data[: len(message.data) // 2], cut)

    async def _store(self, subject: str, data: bytes, headers: dict[str, str]) -> None:
        await self._jetstream.publish(Outgoing(subject, data, written(headers)), WITHIN)


def _kept(headers: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in headers.items()
        if name.lower() not in _LEFT_OUT
        and not name.lower().startswith((_OF_NATS, _OF_OURS))
        and not _LINE_END.intersection(name + value)
    }
