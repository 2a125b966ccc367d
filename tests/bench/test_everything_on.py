"""The trial of all that can be on: its receiver answers what its group asks for."""

import json

from bench.trials.everything_on import CHECKED, KINDS
from duetime.benching.sink import _SAID
from duetime.delivery.schema import compiled
from duetime.delivery.signing import parse_secret


def test_what_the_sink_says_is_kept_and_matches():
    """Else the trial would measure failures."""
    head, _, body = _SAID.partition(b"\r\n\r\n")
    assert f"content-length: {len(body)}".encode() in head
    assert compiled(json.dumps(CHECKED["response_schema"]))(body) is None
    for kind in KINDS.values():
        for name in kind.group.get("response_headers", ()):
            assert f"\r\n{name}: ".encode() in head


def test_secrets_are_secrets():
    """As the service takes them."""
    for kind in KINDS.values():
        for secret in filter(None, kind.settings.get("SIGNING_SECRETS", "").split(",")):
            assert len(parse_secret(secret)) >= 24
