"""The calls about credentials, as values."""

from urllib.parse import quote

from duetime.client.calls import Call
from duetime.client.credential_types import (
    Credential,
    CredentialChange,
    Credentials,
    NewCredential,
)
from duetime.client.tenancy_types import Deleted


def create_credential(credential: NewCredential) -> Call[Credential]:
    return Call("POST", "/credentials", credential, needs="name")


def credentials() -> Call[Credentials]:
    return Call("GET", "/credentials", needs="credentials", needs_type=list)


def get_credential(name: str) -> Call[Credential]:
    return Call("GET", _credential(name), needs="name")


def put_credential(name: str, change: CredentialChange) -> Call[Credential]:
    return Call("PUT", _credential(name), change, needs="name")


def delete_credential(name: str) -> Call[Deleted]:
    return Call("DELETE", _credential(name))


def _credential(name: str) -> str:
    return f"/credentials/{quote(name, safe='')}"
