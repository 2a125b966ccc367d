"""Where credentials come from."""

from pathlib import Path

import botocore.session
import pytest
from botocore.credentials import ReadOnlyCredentials, RefreshableCredentials
from botocore.exceptions import ClientError

from duetime.errors import ConfigurationError, StoreUnavailable
from duetime.stores.dynamodb.address import Address
from duetime.stores.dynamodb.credentials import Chain
from duetime.stores.dynamodb.errors import Refused, unavailable
from duetime.stores.dynamodb.signing import Credentials
from duetime.stores.dynamodb.store import DynamoStore


@pytest.fixture(autouse=True)
def _nothing_around(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    (tmp_path / "credentials").write_text(
        "[work]\naws_access_key_id = of-work\naws_secret_access_key = secret\n"
    )


async def test_those_of_the_address():
    """Keys in the URL are used as they are."""
    chain = Chain(Address.parse("dynamodb://key:secret@local/table"))
    assert await chain.credentials() == Credentials("key", "secret")


async def test_those_of_the_environment(monkeypatch):
    """Without keys in the URL, AWS's variables count."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "of-environment")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "token")
    chain = Chain(Address.parse("dynamodb://local/table"))
    assert await chain.credentials() == Credentials("of-environment", "secret", "token")


async def test_those_of_a_profile():
    """A profile is looked up in the files of AWS's tools."""
    chain = Chain(Address.parse("dynamodb://local/table?profile=work"))
    assert await chain.credentials() == Credentials("of-work", "secret")


async def test_none_at_all():
    """Who has none is told where they could come from."""
    with pytest.raises(ConfigurationError, match="AWS_ACCESS_KEY_ID"):
        await Chain(Address.parse("dynamodb://local/table")).credentials()


async def test_a_profile_that_is_not_there():
    """It is named."""
    with pytest.raises(StoreUnavailable, match=r"no valid credentials: .*elsewhere"):
        await Chain(Address.parse("dynamodb://local/table?profile=elsewhere")).credentials()


async def test_keys_that_fit_into_no_request_are_not_shown(monkeypatch):
    """Whatever the environment holds, the error keeps it to itself."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "visible\x01key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    store = DynamoStore(Address.parse("dynamodb://local/table?endpoint=http://127.0.0.1:1"))
    with pytest.raises(StoreUnavailable, match="do not fit into a request") as caught:
        await store.migrate()
    await store.close()
    assert "visible" not in str(caught.value)


class Role(RefreshableCredentials):
    """Credentials of a role that run out, from a server that may fail."""

    def __init__(self) -> None:
        self.failure: Exception | None = None
        self.asked = 0

    def refresh_needed(self, refresh_in: int | None = None) -> bool:
        return True

    def get_frozen_credentials(self) -> ReadOnlyCredentials:
        self.asked += 1
        if self.failure is not None:
            raise self.failure
        return ReadOnlyCredentials("of-the-role", f"secret-{self.asked}", "token")


@pytest.fixture
def role(monkeypatch: pytest.MonkeyPatch) -> Role:
    role = Role()
    monkeypatch.setattr(botocore.session.Session, "get_credentials", lambda _: role)
    return role


REFUSAL = ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "AssumeRole")


@pytest.mark.parametrize("failure", [REFUSAL, RuntimeError("expired"), OSError("unreachable")])
async def test_a_role_that_cannot_be_renewed_serves_on(role, failure):
    """While they are valid, those that there are do; and it is not tried at every call."""
    chain = Chain(Address.parse("dynamodb://eu-central-1/table"))
    first = await chain.credentials()
    role.failure = failure
    assert await chain.credentials() == first
    assert await chain.credentials() == first
    assert role.asked == 2


@pytest.mark.parametrize("failure", [REFUSAL, RuntimeError("expired"), OSError("unreachable")])
async def test_a_role_that_cannot_be_had_at_all(role, failure):
    """Whatever botocore throws, the store says that it is not available."""
    role.failure = failure
    store = DynamoStore(Address.parse("dynamodb://eu-central-1/table"))
    with pytest.raises(StoreUnavailable, match="no valid credentials"):
        await store.migrate()
    await store.close()


def test_what_aws_says_of_a_signature_is_not_repeated():
    """It may quote the request, with the token of the session."""
    said = "The Canonical String should have been\n'x-amz-security-token:hunter2'"
    for code in ("InvalidSignatureException", "SomethingElse"):
        assert "hunter2" not in str(unavailable(Refused(code, said, {})))
