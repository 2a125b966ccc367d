"""Each callback is sent by the sender of its kind."""

from msgspec.structs import replace

from duetime.delivery.routing import RoutingSender
from duetime.testing import RecordingSender
from duetime.timer import NatsCallback
from tests.delivery.conftest import make_timer, mine


async def test_each_kind_has_its_sender():
    """Also where it is asked what is wrong with a callback, and which target it has."""
    http, nats = RecordingSender(), RecordingSender()
    nats.problem = lambda _: "asked of NATS"
    sender = RoutingSender(http, nats)
    request = make_timer("http://api.example/")
    message = replace(request, spec=replace(request.spec, callback=NatsCallback(topic="a")))
    assert (await sender.send(request, mine)).ok
    assert (await sender.send(message, mine)).ok
    assert (http.sent, nats.sent) == ([request], [message])
    assert sender.problem(request.spec.callback) is None
    assert sender.problem(message.spec.callback) == "asked of NATS"
    assert sender.target(request.spec.callback) == "api.example:80"
    assert sender.target(message.spec.callback) == "nats"
    await sender.close()
