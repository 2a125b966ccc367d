"""What becomes of a node's outbox: events are published to NATS, or dropped when they are old."""

from duetime.clock import Clock
from duetime.config import Settings
from duetime.engine import Engine
from duetime.events.relay import Relay
from duetime.events.stream import EventStream
from duetime.events.sweeper import Sweeper
from duetime.nats.jetstream import JetStream
from duetime.outbox import Outbox
from duetime.stores import Store


def empty_outbox(
    store: Store, engine: Engine, clock: Clock, settings: Settings, jetstream: JetStream | None
) -> None:
    """Let the engine see to the outbox of this node's shards, if the store has one."""
    if not isinstance(store, Outbox):
        return
    if jetstream is None:
        sweeper = Sweeper(
            store,
            clock,
            shards=lambda: engine.members.shards,
            retention=settings.outbox_retention,
        )
        engine.add_chore("outbox", sweeper.step)
        return
    relay = Relay(
        store,
        event_stream(settings, jetstream),
        clock,
        tenure=engine.tenure,
        poll_every=settings.poll_interval / 1000,
        lag=lambda: engine.status().behind_ms,  # in queues too
    )
    relay.wake = engine.add_chore("outbox", relay.step, relay.finish)
    store.on_events = relay.heed


def event_stream(settings: Settings, jetstream: JetStream) -> EventStream:
    """The stream of events that the settings name."""
    return EventStream(
        jetstream,
        name=settings.events_stream,
        prefix=settings.nats_prefix,
        max_age=settings.events_stream_max_age,
        replicas=settings.events_stream_replicas,
    )
