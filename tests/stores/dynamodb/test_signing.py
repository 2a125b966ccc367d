"""Signatures: the same as AWS's own library makes."""

from datetime import UTC, datetime

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as Theirs

from duetime.stores.dynamodb.signing import CONTENT_TYPE, Credentials, Signer

HOST = "dynamodb.eu-central-1.amazonaws.com"


@pytest.mark.parametrize("token", [None, "a-token-of-a-role"])
@pytest.mark.parametrize("body", [b"{}", '{"a": "é"}'.encode()])
def test_the_signature_is_botocores(monkeypatch, token, body):
    """With and without a role, on two days with one signer."""
    signer = Signer(HOST, "eu-central-1")
    for now in (datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), datetime(2026, 1, 3, tzinfo=UTC)):
        ours = signer.headers(Credentials("AKIA", "secret", token), "DynamoDB.PutItem", body, now)
        monkeypatch.setattr("botocore.auth.get_current_datetime", lambda now=now: now)
        request = AWSRequest(
            "POST",
            f"https://{HOST}/",
            {"content-type": CONTENT_TYPE, "x-amz-target": "DynamoDB.PutItem"},
            body,
        )
        SigV4Auth(Theirs("AKIA", "secret", token), "dynamodb", "eu-central-1").add_auth(request)
        assert ours["authorization"] == request.headers["Authorization"]
        assert ours.get("x-amz-security-token") == token
