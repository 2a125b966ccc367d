"""Client certificates: shown to their own hosts, on connections that nobody else uses."""

import ssl
from pathlib import Path
from typing import Any

import pytest

from duetime.delivery.client_certificate import ClientCertificate
from duetime.delivery.opening import tls_context
from duetime.timer import Kind, Timer
from tests import certificates
from tests.certificates import Made
from tests.delivery.conftest import MakeSender, make_timer, mine
from tests.delivery.receiver import CERTIFICATES, Receiver
from tests.delivery.wallets import Wallet, client, credential

AUTHORITY = certificates.make("authority")
STRANGER = certificates.make("stranger")
SERVER = certificates.make("bank.example", AUTHORITY)
OURS = certificates.make("ours", AUTHORITY, is_client=True)
NEXT = certificates.make("next", AUTHORITY, is_client=True)
FOREIGN = certificates.make("foreign", STRANGER, is_client=True)


@pytest.fixture
def demanding(tmp_path: Path) -> ssl.SSLContext:
    """A server that wants to see a certificate of the authority."""
    return server(tmp_path, SERVER, ssl.CERT_REQUIRED)


@pytest.fixture
def trusting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine trusts the authority."""
    bundle = tmp_path / "authority.pem"
    bundle.write_text(AUTHORITY.pem)
    monkeypatch.setenv("SSL_CERT_FILE", str(bundle))


def server(folder: Path, made: Made, verify: ssl.VerifyMode) -> ssl.SSLContext:
    file = folder / "server.pem"
    file.write_text(made.pem + made.key_pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    context.load_verify_locations(cadata=AUTHORITY.pem)
    context.verify_mode = verify
    return context


def shown(made: Made = OURS, id_: str = "1", **options: Any) -> Any:
    return credential(certificate=client(made, AUTHORITY, id_), over_http=False, **options)


def calling(receiver: Receiver, credential: str | None = "bank") -> Timer:
    return make_timer(receiver.url(), credential=credential)


async def test_a_receiver_that_demands_a_certificate(
    make_sender: MakeSender, demanding: ssl.SSLContext
):
    """Gets it, and knows who calls; the connection is kept for the next."""
    async with Receiver(tls=demanding) as receiver:
        sender = make_sender(credentials=Wallet(shown()))
        for _ in range(3):
            outcome = await sender.send(calling(receiver), mine)
            assert outcome.ok, outcome
        assert receiver.clients == ["ours"]


@pytest.mark.usefixtures("trusting")
@pytest.mark.parametrize("newest", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("made", [None, FOREIGN], ids=["none", "of a stranger"])
async def test_a_certificate_that_is_not_accepted(
    make_sender: MakeSender,
    demanding: ssl.SSLContext,
    *,
    newest: ssl.TLSVersion,
    made: Made | None,
):
    """None, or one of a stranger: nothing arrives, and it may be tried again."""
    demanding.maximum_version = newest
    async with Receiver(tls=demanding) as receiver:
        sender = make_sender(credentials=Wallet(shown(made or OURS)))
        outcome = await sender.send(calling(receiver, "bank" if made else None), mine)
        # With TLS 1.3 the handshake is over for the client before the server has judged it.
        is_older = newest is ssl.TLSVersion.TLSv1_2
        assert outcome.kind is (Kind.TLS if is_older else Kind.NETWORK)
        assert outcome.retryable
        assert receiver.requests == []


@pytest.mark.promise("no-secret")
@pytest.mark.usefixtures("trusting")
async def test_a_connection_is_not_shared(make_sender: MakeSender, tmp_path: Path):
    """With those who show nothing, or something else, or the same one before it was changed."""
    optional = server(tmp_path, SERVER, ssl.CERT_OPTIONAL)
    async with Receiver(tls=optional) as receiver:
        wallet = Wallet(shown())
        sender = make_sender(credentials=wallet)
        for by in ("bank", None, "bank", None):
            assert (await sender.send(calling(receiver, by), mine)).ok
        assert receiver.clients == ["ours", None]
        wallet.shown = shown(NEXT, "2")
        assert (await sender.send(calling(receiver), mine)).ok
        wallet.shown = shown(OURS, "3")
        assert (await sender.send(calling(receiver), mine)).ok
        assert receiver.clients == ["ours", None, "next", "ours"]
        assert (await sender.send(calling(receiver, None), mine)).ok
        assert receiver.connections == 4


async def test_only_its_own_authorities_vouch_for_the_receiver(
    make_sender: MakeSender, monkeypatch: pytest.MonkeyPatch
):
    """Those that the machine trusts do not, where a credential brings its own."""
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATES / "authority.pem"))
    async with Receiver("valid.pem") as receiver:
        sender = make_sender(credentials=Wallet(shown()))
        outcome = await sender.send(calling(receiver), mine)
        assert (outcome.kind, outcome.error) == (
            Kind.TLS,
            "TLS: certificate is not from a trusted authority",
        )
        assert receiver.requests == []
        assert (await sender.send(calling(receiver, None), mine)).ok


async def test_the_name_of_the_receiver_is_checked(
    make_sender: MakeSender, demanding: ssl.SSLContext
):
    """A receiver that its authority vouches for under another name is not called."""
    async with Receiver(tls=demanding) as receiver:
        sender = make_sender(
            credentials=Wallet(shown(hosts=("other.example",))), lookup=lambda _: ["127.0.0.1"]
        )
        timer = make_timer(receiver.url(host="other.example"), credential="bank")
        outcome = await sender.send(timer, mine)
        assert outcome.error == "TLS: certificate is for another host"
        assert receiver.requests == []


async def test_never_without_tls(make_sender: MakeSender, receiver: Receiver):
    """A callback that names a client certificate does not go where none can be shown."""
    sender = make_sender(credentials=Wallet(shown()))
    outcome = await sender.send(calling(receiver), mine)
    assert (outcome.kind, outcome.error) == (
        Kind.CREDENTIAL,
        "the credential 'bank' is sent over https only",
    )
    assert receiver.connections == 0


async def test_old_tls_is_not_spoken():
    """1.2 is the least, with a client certificate and without."""
    for context in (tls_context(), tls_context(AUTHORITY.pem)):
        assert context.minimum_version is ssl.TLSVersion.TLSv1_2
        assert context.verify_mode is ssl.CERT_REQUIRED
        assert context.check_hostname


async def test_a_key_that_cannot_be_read(make_sender: MakeSender, demanding: ssl.SSLContext):
    """However it came to be stored: the attempt fails, and says nothing of it."""
    broken = ClientCertificate("1", chain=OURS.pem, key=b"nonsense", authorities=AUTHORITY.pem)
    async with Receiver(tls=demanding) as receiver:
        sender = make_sender(credentials=Wallet(credential(certificate=broken)))
        outcome = await sender.send(calling(receiver), mine)
        assert outcome.kind is Kind.TLS
        assert "nonsense" not in str(outcome.error)


@pytest.mark.promise("no-secret")
def test_the_key_is_on_no_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """What is written for the library to read is encrypted, and gone after that."""
    written: list[bytes] = []

    class Context:
        def load_cert_chain(self, path: Path, password: str) -> None:
            assert len(password) == 64
            written.append(path.read_bytes())

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for has_memory in (True, False):
        if not has_memory:
            monkeypatch.delattr("os.memfd_create")
        client(OURS, AUTHORITY).load_into(Context())  # type: ignore[arg-type]
    assert len(written) == 2
    for content in written:
        assert b"BEGIN ENCRYPTED PRIVATE KEY" in content
        assert OURS.key_pem.splitlines()[1].encode() not in content
    assert list(tmp_path.iterdir()) == []
