"""What strangers may send through a server, and what an impostor says before it is let in."""

import asyncio
import ssl
from urllib.parse import urlsplit

import pytest

from duetime.clock import SystemClock
from duetime.errors import NatsUnavailable
from duetime.nats import tls
from duetime.nats.connection import Connection
from tests.nats.conftest import Connected, Heard, Impostor
from tests.servers import certificates
from tests.waiting import until

WITHIN = 10.0
MANY_DIGITS = b"9" * 5000


@pytest.mark.parametrize(
    "sent",
    [
        b"PUB {subject} a\x0cb 2\r\nhi\r\n",  # what is a space to Python is none to NATS
        b"PUB {subject} a\x0b1\x0b1 2\r\nhi\r\n",
        b"PUB {subject} \xff\x00\x85\xa0 2\r\nhi\r\n",
        b"HPUB {subject} 5013 5015\r\nNATS/1.0 " + MANY_DIGITS + b"\r\n\r\nhi\r\n",
        b"HPUB {subject} 5 7\r\nrubbihi\r\n",
    ],
)
async def test_strangers_cannot_break_the_connection(
    url: str, subject: str, connected: Connected, sent: bytes
):
    """Whatever a server lets through is heard, and what comes after it."""
    ours = await connected(url)
    heard, lost = Heard(), []
    ours.subscribe(subject, heard.append)
    ours.when_lost(lambda: lost.append(1))
    await ours.flush(WITHIN)
    where = urlsplit(url)
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    await reader.readline()
    writer.write(b'CONNECT {"headers":true,"verbose":false}\r\n')
    name = subject.encode()
    writer.write(sent.replace(b"{subject}", name) + b"PUB " + name + b" 3\r\nend\r\nPING\r\n")
    assert await reader.readline() == b"PONG\r\n"
    writer.close()
    await ours.flush(WITHIN)
    assert heard.data == [b"hi", b"end"]
    assert not lost


async def test_nothing_is_heard_before_it_is_known_who_speaks(impostor: Impostor):
    """Messages before TLS, or before we were let in, are no server's: nobody hears them."""
    says = (
        b'INFO {"headers":true,"tls_available":true,"tls_required":true}\r\nMSG a 1 4\r\nevil\r\n'
    )
    address = await impostor(says)
    for scheme in ("nats", "tls"):
        ours = Connection([f"{scheme}://{address}"], SystemClock())
        heard = Heard()
        ours.subscribe("a", heard.append)
        with pytest.raises(NatsUnavailable, match="it sent a message before it let us in"):
            await ours.connect()
        assert not heard


async def test_an_impostor_names_no_other_servers(impostor: Impostor):
    """Whom it would send us to is not asked, or else they would be shown our password."""
    says = b'INFO {"headers":true,"tls_available":true,"connect_urls":["evil.example:4222"],'
    address = await impostor(says + b'"max_payload":1}\r\n')
    ours = Connection([f"tls://us:secret@{address}"], SystemClock())
    with pytest.raises(NatsUnavailable, match="it did not answer in time"):
        await ours.connect(0.2)
    assert not ours._others
    assert ours.max_payload > 1


async def test_what_is_said_before_tls_names_no_other_servers():
    """Anybody on the way may have said it; what is said within TLS counts."""
    shown = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    shown.load_cert_chain(certificates.CERTIFICATE, certificates.KEY)
    info = b'INFO {"headers":true,"tls_required":true,"connect_urls":["%s.example:1"]}\r\n'

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            writer.write(info % b"evil")
            await writer.start_tls(shown)
            while line := await reader.readline():
                if line == b"PING\r\n":
                    writer.write(b"PONG\r\n")
                elif line.startswith(b"PUB"):
                    writer.write(info % b"good")
        except OSError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    believed = tls.context(str(certificates.AUTHORITY))
    ours = Connection([f"tls://127.0.0.1:{port}"], SystemClock(), tls=believed)
    await ours.connect()
    assert not ours._others
    ours.publish("a", b"")
    await until(lambda: ours._others)
    assert [each.host for each in ours._others] == ["good.example"]
    await ours.close()
    server.close()
