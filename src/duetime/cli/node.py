"""A node: the store, the engine and the API, put together, started, and stopped in order."""

import asyncio
import logging
import os
import secrets
import shutil
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial

from duetime import __version__
from duetime.api.app import create_app
from duetime.api.server import ApiServer, listen
from duetime.auditing import Audit
from duetime.cli import logs
from duetime.cli.banner import banner, reachable
from duetime.cli.commanding import commands_of
from duetime.cli.interpreter import loop_factory, tune
from duetime.cli.limits import allow_open_files
from duetime.cli.messaging import connected, own_subjects
from duetime.cli.output import Screen
from duetime.cli.predecessor import has_ended
from duetime.cli.publishing import empty_outbox
from duetime.cli.receiver import running_receiver
from duetime.cli.receiver_command import printing
from duetime.cli.storage import opened, with_outbox
from duetime.cli.worker import Worker
from duetime.clock import Clock, SystemClock
from duetime.commands.answering import Answering
from duetime.config import Settings, without_password
from duetime.delivery import Sender
from duetime.delivery.egress import Egress
from duetime.delivery.http import HttpSender
from duetime.delivery.nats import NatsSender
from duetime.delivery.proxy import Proxy
from duetime.delivery.routing import RoutingSender
from duetime.delivery.signing import parse_secret
from duetime.engine import Engine
from duetime.events.hub import Hub
from duetime.events.jetstream_feed import JetStreamFeed
from duetime.events.store_feed import StoreFeed
from duetime.layout import Layout, agree_on_shards
from duetime.moving.journal import check_no_move
from duetime.moving.threshold import join_unless_moving
from duetime.nats import Nats
from duetime.nats.jetstream import JetStream
from duetime.service import Service
from duetime.stores import Store
from duetime.tenancy.meter import Meter
from duetime.tenancy.rules import Rules
from duetime.tenancy.terms import GroupTerms
from duetime.tenancy.wallet import Wallet
from duetime.vault import Vault, parse_key

FAREWELL = 0.2  # seconds that NATS has for the last messages, if all others are used up

log = logging.getLogger("duetime")


def run_node(settings: Settings, *, dev: bool, worker: Worker | None = None) -> int:
    """Run a node until a signal, or a worker's supervisor, ends it; the answer is the exit code."""
    number = worker.number if worker else None
    logs.configure(settings.log_level, settings.log_format, worker=number)
    allow_open_files(settings.max_in_flight)
    tune()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(_run(settings, worker, dev=dev))


async def _run(settings: Settings, worker: Worker | None, *, dev: bool) -> int:
    clock = SystemClock()
    drain_for = settings.drain_timeout / 1000
    async with AsyncExitStack() as stack:
        listener = stack.enter_context(
            worker.listener if worker else listen(settings.host, settings.port)
        )
        store = with_outbox(settings, await stack.enter_async_context(opened(settings)))
        rules = Rules(store, clock)
        vault = Vault(tuple(map(parse_key, settings.secrets_key)))
        installation = tuple(map(parse_secret, settings.signing_secrets))
        terms = GroupTerms(rules, vault, clock, installation=installation)
        name = _node_name()
        # A worker may come in place of one that died, while NATS is away: the supervisor has
        # looked when all of them began.
        nats = await stack.enter_async_context(
            connected(settings, clock, name, insists=worker is None)
        )
        sender: Sender = HttpSender(
            clock,
            _egress(settings),
            proxy=_proxy(settings),
            credentials=Wallet(rules, vault),
            terms=terms,
        )
        if nats is not None:
            by_nats = NatsSender(nats, clock, terms=terms, reserved=own_subjects(settings))
            sender = RoutingSender(sender, by_nats)
        stack.push_async_callback(sender.close)
        meter = Meter(rules, store, clock)
        engine = Engine(
            name,
            store,
            sender,
            clock,
            claim_for=settings.claim_ttl,
            poll_every=settings.poll_interval / 1000,
            max_in_flight=settings.max_in_flight,
            target_concurrency=settings.target_concurrency,
            breaker_failures=settings.breaker_failures,
            breaker_longest_pause=settings.breaker_longest_pause,
            retention=settings.retention,
            readmit=partial(check_no_move, store),
            has_ended=has_ended,
            rules=rules,
            meter=meter,
        )
        await join_unless_moving(store, come=engine.join, go=engine.leave_no_trace)
        stack.push_async_callback(engine.leave_no_trace)
        num_shards = await agree_on_shards(store, settings.num_shards)
        jetstream = None if nats is None else JetStream(nats, clock)
        live = _live(settings, store, clock, jetstream)
        service = Service(
            store,
            sender,
            clock,
            engine=engine,
            min_delay=settings.min_delay,
            layout=Layout(num_shards),
            max_timer=settings.max_body_bytes,
            rules=rules,
            meter=meter,
            audit=Audit(store, clock, level=settings.audit, keep_for=settings.audit_retention),
            are_groups_made_by_timers=settings.unknown_groups == "create",
            vault=vault,
            live=live,
        )
        stack.push_async_callback(service.close)
        service.add_chores(engine)
        empty_outbox(store, engine, clock, settings, jetstream)
        app = create_app(
            service,
            settings.api_key or "",
            max_body=settings.max_body_bytes,
            max_bulk_body=settings.max_batch_bytes,
            trusted_proxies=settings.trusted_proxies,
            is_nats_connected=None if nats is None else lambda: nats.is_connected,
        )
        server = ApiServer(app, drain_for=drain_for)
        if live is not None:
            server.on_exit = live.close
        if dev:
            await stack.enter_async_context(_dev_receiver(settings))
        commands = None if nats is None else commands_of(settings, nats, service, engine, clock)
        return await _serve(
            server, listener, engine, settings, worker, commands=commands, nats=nats, clock=clock
        )


async def _serve(
    server: ApiServer,
    listener: socket.socket,
    engine: Engine,
    settings: Settings,
    worker: Worker | None,
    *,
    commands: Answering | None,
    nats: Nats | None,
    clock: Clock,
) -> int:
    stop = worker.told_to_stop() if worker else _stop_on_signals()
    working = asyncio.create_task(engine.run(), name="engine")
    if commands is not None:
        await commands.start()  # before /readyz can be asked: who is told so may send commands
    serving = asyncio.create_task(server.serve(sockets=[listener]), name="api")
    await server.is_listening.wait()
    if worker:
        worker.tell_ready()
    else:
        log.info(
            "duetime %s listens on %s, timers are in %s",
            __version__,
            reachable(settings.host, settings.port),
            without_password(settings.database_url),
        )
    stopping = asyncio.create_task(stop.wait())
    barred = asyncio.create_task(engine.is_barred.wait())
    await asyncio.wait({stopping, barred, working, serving}, return_when=asyncio.FIRST_COMPLETED)
    is_clean = not (barred.done() or working.done() or serving.done())
    stopping.cancel()
    barred.cancel()
    log.info("stopping: no new requests; callbacks under way are finished")
    server.should_exit = True
    drain_for = settings.drain_timeout / 1000
    drained_by = clock.monotonic() + drain_for
    answered = () if commands is None else (commands.stop(drain_for),)
    await asyncio.gather(serving, engine.stop(drain_for), *answered)
    await asyncio.wait({working}, timeout=max(drained_by - clock.monotonic(), FAREWELL))
    if nats is not None:
        # What is left waits for a server that does not answer, and would wait for longer than we.
        await nats.close(max(drained_by - clock.monotonic(), FAREWELL))
    await working
    log.info("stopped; timers that are due later stay in the database")
    return 0 if is_clean else 1


@asynccontextmanager
async def _dev_receiver(settings: Settings) -> AsyncIterator[None]:
    """Run a receiver beside the node, and show how to make a first timer."""
    on_arrival = printing(Screen(sys.stdout))
    async with AsyncExitStack() as stack:
        try:
            receiver = running_receiver("127.0.0.1", settings.port + 1, on_arrival)
            port = await stack.enter_async_context(receiver)
        except (OSError, OverflowError):  # the next port is taken, or there is none
            receiver = running_receiver("127.0.0.1", 0, on_arrival)
            port = await stack.enter_async_context(receiver)
        text = banner(
            host=settings.host,
            port=settings.port,
            api_key=settings.api_key or "",
            receiver_port=port,
            program=_program(),
        )
        print(text, flush=True)
        yield


def _stop_on_signals() -> asyncio.Event:
    """An event that the first SIGINT or SIGTERM sets; the second one ends the process."""
    stop = asyncio.Event()

    def on_signal() -> None:
        if stop.is_set():
            log.warning("stopping at once; what is under way will be tried again")
            os._exit(1)
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(NotImplementedError):  # Windows: Ctrl-C raises KeyboardInterrupt instead
            asyncio.get_running_loop().add_signal_handler(number, on_signal)
    return stop


def _program() -> str:
    """What to type for this command line: its path, unless the shell finds it."""
    return "duetime" if shutil.which("duetime") else os.path.relpath(sys.argv[0])


def _egress(settings: Settings) -> Egress:
    return Egress.parse(
        ",".join(settings.egress_allow),
        public=",".join(settings.egress_public),
        deny=",".join(settings.egress_deny),
    )


def _live(
    settings: Settings, store: Store, clock: Clock, jetstream: JetStream | None
) -> Hub | None:
    """Whoever hands out events as they happen, where there are any."""
    if settings.outbox == "off":
        return None
    if jetstream is None:
        return Hub(StoreFeed(store, clock, keep_for=settings.outbox_retention), clock)
    return Hub(JetStreamFeed(jetstream, settings.events_stream, settings.nats_prefix), clock)


def _proxy(settings: Settings) -> Proxy | None:
    if settings.egress_proxy is None:
        return None
    return Proxy(settings.egress_proxy, resolves=settings.egress_proxy_dns == "proxy")


def _node_name() -> str:
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
