"""The commands over NATS that a node's settings ask for."""

from duetime.cli.messaging import own_subjects
from duetime.clock import Clock
from duetime.commands.answering import Answering
from duetime.commands.desk import Desk
from duetime.commands.prefixes import prefixes
from duetime.commands.queue import Queue
from duetime.config import Settings
from duetime.engine_view import Chores
from duetime.nats import Nats
from duetime.nats.jetstream import JetStream
from duetime.service import Service

HANDS = 2  # passes over the stream at once: while one writes, the other has more brought


def commands_of(
    settings: Settings, nats: Nats, service: Service, chores: Chores, clock: Clock
) -> Answering | None:
    """What answers commands, to be started; None if there are to be none.

    Creates from a stream are one more chore of the node.
    """
    if settings.nats_commands == "off":
        return None
    desk = Desk(
        service,
        settings.api_key or "",
        trusts=settings.nats_commands,
        max_body=settings.max_body_bytes,
    )
    subjects = prefixes(settings.nats_prefix, settings.nats_tenants)
    if settings.commands_stream is not None:
        queue = Queue(
            nats,
            JetStream(nats, clock),
            desk,
            clock,
            stream=settings.commands_stream,
            prefixes=subjects,
        )
        for number in range(1, HANDS + 1):
            chores.add_chore(f"commands {number}", queue.step)
    name = settings.nats_prefix.replace(".", "-")
    reserved = own_subjects(settings)
    return Answering(nats, desk, clock, name=name, prefixes=subjects, reserved=reserved)
