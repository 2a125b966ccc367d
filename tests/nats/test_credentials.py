"""Who we are to a server, and who it is to us."""

import shutil
from pathlib import Path

import pytest

from duetime.clock import SystemClock
from duetime.errors import ConfigurationError, NatsUnavailable
from duetime.nats import tls
from duetime.nats.connection import Connection
from duetime.nats.credentials import Credentials
from tests.certificates import make
from tests.nats import nkeys
from tests.nats.conftest import Connected
from tests.servers import certificates
from tests.servers.fixtures import OwnServer

WITHIN = 10.0
BROKEN = (
    "---BEGIN NATS USER JWT---\na\n---END NATS USER JWT---\n"
    "---BEGIN USER NKEY SEED---\nSUABC\n---END USER NKEY SEED---\n"
)
REFUSED = r"does not let us in with our credentials: Authorization Violation"


async def test_user_and_password(own_server: OwnServer, connected: Connected):
    """Also with characters that mean something in a URL; a wrong one is not shown."""
    server = own_server("nats", user=("it's", "p@ss/w:rd%"))
    await (await connected(server.url())).flush(WITHIN)
    with pytest.raises(NatsUnavailable, match=REFUSED) as caught:
        await connected(f"nats://us:secret@127.0.0.1:{server.port}")
    assert "secret" not in str(caught.value)
    with pytest.raises(NatsUnavailable, match=REFUSED):
        await connected(f"nats://127.0.0.1:{server.port}")


async def test_token(own_server: OwnServer, connected: Connected):
    """In the URL, or by itself."""
    server = own_server("nats", token="open-sesame")
    await (await connected(server.url())).flush(WITHIN)
    bare = f"nats://127.0.0.1:{server.port}"
    await (await connected(bare, credentials=Credentials(token="open-sesame"))).flush(WITHIN)
    with pytest.raises(NatsUnavailable, match=REFUSED) as caught:
        await connected(bare, credentials=Credentials(token="close-sesame"))
    assert "sesame" not in str(caught.value)


async def test_nkey(own_server: OwnServer, connected: Connected, tmp_path: Path):
    """The server's nonce is signed with the seed, which never leaves."""
    user, other = nkeys.new(nkeys.USER), nkeys.new(nkeys.USER)
    server = own_server("nats", nkey=user.public)
    place = tmp_path / "user.nk"
    place.write_text(f"{user.seed}\n")
    credentials = Credentials(nkey_seed=str(place))
    await (await connected(server.url(), credentials=credentials)).flush(WITHIN)
    place.write_text(other.seed)
    with pytest.raises(NatsUnavailable, match=REFUSED) as caught:
        await connected(server.url(), credentials=credentials)
    assert other.seed not in str(caught.value)


async def test_credentials_file(own_server: OwnServer, connected: Connected, tmp_path: Path):
    """A user of an account of an operator, by JWT and seed."""
    house = nkeys.house()
    server = own_server("nats", jetstream=False, configuration=house.configuration)
    credentials = Credentials(creds=house.creds(tmp_path))
    ours = await connected(server.url(), credentials=credentials)
    await ours.flush(WITHIN)
    other = Credentials(creds=nkeys.house().creds(tmp_path))
    with pytest.raises(NatsUnavailable, match=REFUSED):
        await connected(server.url(), credentials=other)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, r"NATS_CREDS: .* cannot be read: No such file or directory"),
        ("nothing", r"NATS_CREDS: .* has no user's JWT or no seed"),
        (
            BROKEN,
            r"NATS_CREDS: .*/user\.creds: the seed of the nkey must be that of a user: SU\.\.\.",
        ),
    ],
)
def test_files_that_cannot_be_used(tmp_path: Path, content: str | None, problem: str):
    """The message says which, and shows nothing of what is in it."""
    place = tmp_path / "user.creds"
    if content is not None:
        place.write_text(content)
    with pytest.raises(ConfigurationError, match=problem):
        Credentials(creds=str(place)).check()


@pytest.mark.parametrize("kind", [nkeys.ACCOUNT, nkeys.OPERATOR])
def test_a_seed_must_be_a_users(tmp_path: Path, kind: int):
    """That of an account or an operator can do too much to be used here."""
    place = tmp_path / "seed"
    place.write_text(nkeys.new(kind).seed)
    with pytest.raises(ConfigurationError, match=r"^NATS_NKEY_SEED: .*must be that of a user"):
        Credentials(nkey_seed=str(place)).check()


async def test_tls(own_server: OwnServer, connected: Connected):
    """The server must prove who it is; one that wants TLS has it without being asked."""
    server = own_server("nats", tls=True)
    believed = tls.context(str(certificates.AUTHORITY))
    await (await connected(server.url(), tls=believed)).flush(WITHIN)
    ours = await connected(f"nats://localhost:{server.port}", tls=believed)
    ours.publish("large", bytes(1024 * 1024))
    await ours.flush(WITHIN)
    with pytest.raises(NatsUnavailable, match="its certificate is not accepted"):
        await connected(server.url())
    with pytest.raises(NatsUnavailable, match="its certificate is not accepted"):
        await connected(f"nats://127.0.0.1:{server.port}")


async def test_the_name_of_the_server_is_checked(own_server: OwnServer, connected: Connected):
    """A certificate of somebody else's is none, though the same authority vouches for it."""
    server = own_server("nats", tls=True)
    believed = tls.context(str(certificates.AUTHORITY))
    ours = Connection([server.url()], SystemClock(), tls=believed)
    ours._servers = [each._replace(name="other.example") for each in ours._servers]
    with pytest.raises(NatsUnavailable, match=r"its certificate is not accepted: .*other.example"):
        await ours.connect()


async def test_without_tls_nothing_is_told(own_server: OwnServer, connected: Connected):
    """A server that has none does not get to see a password that was meant for TLS."""
    server = own_server("nats", user=("us", "secret"), settings={"trace": "true", "debug": "true"})
    for url, context in (
        (f"tls://us:secret@127.0.0.1:{server.port}", None),
        (server.url(), tls.context(str(certificates.AUTHORITY))),
    ):
        with pytest.raises(NatsUnavailable, match="it has no TLS"):
            await connected(url, tls=context)
    assert "CONNECT" not in (server.folder / "server.log").read_text()


async def test_a_client_certificate_is_shown(
    own_server: OwnServer, connected: Connected, tmp_path: Path
):
    """To servers that want one; without it they hang up."""
    authority = make("authority of clients")
    client = make("client", authority, is_client=True)
    (tmp_path / "client.pem").write_text(client.pem)
    (tmp_path / "client.key").write_text(client.key_pem)
    server = own_server("nats", tls=True, clients=authority.pem)
    files = (str(tmp_path / "client.pem"), str(tmp_path / "client.key"))
    shown = tls.context(str(certificates.AUTHORITY), *files)
    await (await connected(server.url(), tls=shown)).flush(WITHIN)
    with pytest.raises(NatsUnavailable, match="no NATS server can be reached"):
        await connected(server.url(), tls=tls.context(str(certificates.AUTHORITY)))


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        (("/nowhere", "", ""), "NATS_TLS_CA: /nowhere cannot be used"),
        (("", "/nowhere", "/nowhere"), "NATS_TLS_CERT and NATS_TLS_KEY cannot be used"),
        (("", "", "/nowhere"), "NATS_TLS_CERT: is not set, but NATS_TLS_KEY is"),
        (("", "/dev/null", ""), "NATS_TLS_CERT: /dev/null has no certificate with its key; .*_KEY"),
    ],
)
def test_tls_files_that_cannot_be_used(files: tuple[str, str, str], problem: str):
    """The message names the setting."""
    with pytest.raises(ConfigurationError, match=problem):
        tls.context(*files)


async def test_a_renewed_file_is_used_without_a_restart(
    own_server: OwnServer, connected: Connected, tmp_path: Path
):
    """It is read again for every connection."""
    old, new = nkeys.new(nkeys.USER), nkeys.new(nkeys.USER)
    server = own_server("nats", nkey=old.public)
    place = tmp_path / "user.nk"
    place.write_text(old.seed)
    credentials = Credentials(nkey_seed=str(place))
    await (await connected(server.url(), credentials=credentials)).flush(WITHIN)
    settings = server.folder / "nats.conf"
    settings.write_text(settings.read_text().replace(old.public, new.public))
    place.write_text(new.seed)
    server.stop()
    shutil.rmtree(server.folder / "jetstream", ignore_errors=True)
    server.start()
    await (await connected(server.url(), credentials=credentials)).flush(WITHIN)
