"""Signing, against the vectors that Standard Webhooks publishes."""

import base64
import hmac

import pytest

from duetime.delivery.signing import body_signatures, parse_secret, sign, signatures
from duetime.errors import ConfigurationError

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
ID, TIMESTAMP, BODY = "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}'
SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@pytest.mark.promise("signatures-fit")
def test_published_vector():
    """The specification's own example comes out the same."""
    assert sign(parse_secret(SECRET), ID, TIMESTAMP, BODY) == SIGNATURE


@pytest.mark.promise("signatures-fit")
@pytest.mark.parametrize("length", [1, 24, 32, 63, 64, 65, 200])
@pytest.mark.parametrize("body", [b"", b"{}", bytes(5000)])
def test_same_as_the_standard_library(length: int, body: bytes):
    """It is HMAC-SHA256, for every length of secret and of body."""
    secret = bytes(range(length))
    digest = hmac.digest(secret, b"id.7." + body, "sha256")
    assert sign(secret, "id", 7, body) == "v1," + base64.b64encode(digest).decode()
    assert body_signatures([secret], body) == hmac.digest(secret, body, "sha256").hex()


@pytest.mark.promise("signatures-fit")
def test_every_active_secret_signs():
    """While secrets rotate there is one signature for each, separated by a space."""
    other = bytes(range(32))
    both = signatures([parse_secret(SECRET), other], ID, TIMESTAMP, BODY)
    assert both == f"{SIGNATURE} {sign(other, ID, TIMESTAMP, BODY)}"


@pytest.mark.promise("no-secret")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "whsec_",
        "whsec_c2hvcnQ=",
        "whsec_not*base64*at*all*not*base64*at*all",
        "whsec_" + "QUFB" * 40,
    ],
    ids=["empty", "no prefix", "nothing", "too short", "not base64", "too long"],
)
def test_bad_secret_is_named_and_never_shown(text: str):
    """A bad secret is refused by the name of its variable, without quoting it."""
    with pytest.raises(ConfigurationError) as caught:
        parse_secret(text)
    assert str(caught.value).startswith("SIGNING_SECRETS: ")
    secret = text.removeprefix("whsec_")
    assert not secret or secret not in str(caught.value)
    assert caught.value.__cause__ is None
