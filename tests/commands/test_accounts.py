"""Accounts of NATS: each tenant in its own, which has the subjects of that tenant and no others."""

from contextlib import AsyncExitStack

import pytest
from nats.aio.client import Client
from nats.errors import NoRespondersError

from tests.api.client import timer_body
from tests.commands.callers import Served, content
from tests.commands.conftest import Enqueue, Serve, stranger
from tests.nats.conftest import heard_of, listening
from tests.servers.fixtures import OwnServer
from tests.servers.nats import NatsServer

# The account of Duetime offers to each of the others what is theirs. Globex calls it otherwise.
ACCOUNTS = """
accounts {
  DUETIME {
    users: [ { user: duetime, password: d } ]
    exports: [
      { service: "duetime.acme.timers.*", accounts: [ ACME ] }
      { service: "duetime.globex.timers.*", accounts: [ GLOBEX ] }
    ]
  }
  ACME {
    users: [ { user: acme, password: a } ]
    imports: [ { service: { account: DUETIME, subject: "duetime.acme.timers.*" } } ]
  }
  GLOBEX {
    users: [ { user: globex, password: g } ]
    imports: [
      { service: { account: DUETIME, subject: "duetime.globex.timers.create" }, to: "my.create" }
    ]
  }
}
"""

# One offer for all: the server itself puts the name of the account into the subject.
BY_ACCOUNT = """
accounts {
  DUETIME {
    users: [ { user: duetime, password: d } ]
    exports: [ { service: "duetime.*.timers.*", account_token_position: 2 } ]
  }
  ACME {
    users: [ { user: acme, password: a } ]
    imports: [ { service: { account: DUETIME, subject: "duetime.ACME.timers.*" } } ]
  }
}
"""


def at(server: NatsServer, user: str) -> str:
    return f"nats://{user}:{user[0]}@{server.host}:{server.port}"


async def asked(served: Served, client: Client, tenant: str) -> int:
    body = timer_body()
    answer = await served.ask("create", body, key=None, tenant=tenant, client=client)
    return answer.status


@pytest.mark.promise("tenants-apart")
async def test_an_account_for_each_tenant(
    serve: Serve, own_server: OwnServer, stack: AsyncExitStack
):
    """Where accounts decide, each acts for its tenant, and nothing of others can be reached."""
    server = own_server("nats", jetstream=False, configuration=ACCOUNTS)
    served = await serve(trusts="subjects", at=at(server, "duetime"), prefix="duetime")
    await served.api.make_key("acme")
    await served.api.make_key("globex")
    acme = await stranger(stack, at(server, "acme"))
    globex = await stranger(stack, at(server, "globex"))
    assert await asked(served, acme, "acme") == 201
    for client, tenant in ((acme, "globex"), (acme, "default"), (globex, "acme")):
        with pytest.raises(NoRespondersError):
            await asked(served, client, tenant)
    renamed = await globex.request("my.create", b"{}", timeout=30)
    assert renamed.headers["Duetime-Status"] == "400"


async def test_the_account_in_the_subject(
    serve: Serve, own_server: OwnServer, stack: AsyncExitStack
):
    """Where the server puts the account into the subject, NATS_TENANTS says whose it is."""
    server = own_server("nats", jetstream=False, configuration=BY_ACCOUNT)
    served = await serve(
        trusts="subjects", at=at(server, "duetime"), tenants=(("duetime.ACME", "acme"),)
    )
    await served.api.make_key("acme")
    acme = await stranger(stack, at(server, "acme"))
    answer = await served.ask("create", timer_body(), key=None, prefix="duetime.ACME", client=acme)
    assert answer.status == 201


# No more than docs/nats.md says that each needs.
PERMISSIONS = """
authorization {
  users: [
    { user: duetime, password: d, permissions {
        subscribe: [ "duetime.*.timers.*", "$SRV.>", "_INBOX.>" ]
        publish: [ "_INBOX.>", "$JS.API.>", "$JS.ACK.>", "duetime.*.queue.dead" ] } }
    { user: acme, password: a, permissions {
        subscribe: [ "_INBOX.>" ]
        publish: [ "duetime.acme.timers.*", "duetime.acme.queue.create" ] } }
    { user: root, password: r }
  ]
}
"""


# Duetime's own user may do everything.
TRUSTED = """
authorization {
  users: [
    { user: duetime, password: d }
    { user: acme, password: a, permissions {
        subscribe: [ "_INBOX.>" ]
        publish: [ "duetime.acme.timers.*", "$SRV.>" ] } }
  ]
}
"""


@pytest.mark.promise("tenants-apart")
@pytest.mark.parametrize(
    "reply",
    [
        "duetime.default.timers.cancel",
        "duetime.events.default.g.created",
        "other.place.timers.create",
        "$JS.API.STREAM.PURGE.DUETIME_EVENTS",
        "$SYS.REQ.SERVER.PING",
    ],
)
async def test_answers_go_nowhere_else(
    serve: Serve, own_server: OwnServer, stack: AsyncExitStack, reply: str
):
    """Who may not publish on a subject cannot have Duetime publish there, by asking for the answer
    to come there.
    """
    server = own_server("nats", configuration=TRUSTED)
    served = await serve(
        trusts="subjects",
        at=at(server, "duetime"),
        prefix="duetime",
        reserved=["duetime", "other.place"],
    )
    await served.api.make_key("acme")
    acme = await stranger(stack, at(server, "acme"))
    heard = await listening(await stranger(stack, at(server, "duetime")), reply)
    for subject in ("duetime.acme.timers.create", "duetime.acme.timers.get", "$SRV.PING"):
        await acme.publish(subject, content(timer_body()), reply=reply)
    assert await asked(served, acme, "acme") == 201
    await heard_of(served.client)
    assert not heard
    made = await served.api.call("GET", "/timers", headers={"X-Tenant-ID": "acme"})
    assert len(made.data["timers"]) == 1


@pytest.mark.promise("tenants-apart")
async def test_permissions(
    serve: Serve, enqueue: Enqueue, own_server: OwnServer, stack: AsyncExitStack
):
    """With the permissions that are documented all of it works, and nothing of other tenants."""
    server = own_server("nats", configuration=PERMISSIONS)
    ours, names = at(server, "duetime"), ("duetime", "COMMANDS")
    served = await serve(trusts="subjects", at=ours, prefix="duetime")
    await served.api.make_key("acme")
    queued = await enqueue(served.api.store, trusts="subjects", at=ours, names=names)
    acme = await stranger(stack, at(server, "acme"))
    root = await stranger(stack, at(server, "root"))
    assert await asked(served, acme, "acme") == 201
    with pytest.raises(TimeoutError):
        await acme.request("duetime.default.timers.create", b"{}", timeout=0.2)
    subject = "duetime.acme.queue.create"
    for body in (timer_body(), {}):
        await acme.jetstream().publish(subject, content(body), timeout=30)
    await queued.queue.step()
    made = await served.api.call("GET", "/timers", headers={"X-Tenant-ID": "acme"})
    assert len(made.data["timers"]) == 2
    dead = await root.jetstream().get_last_msg("COMMANDS", "duetime.acme.queue.dead")
    assert dead.headers["Duetime-Status"] == "400"
