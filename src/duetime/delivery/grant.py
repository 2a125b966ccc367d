"""A grant: client credentials of OAuth2, and where they are exchanged for a token."""

import base64
from typing import Literal, TypeAlias
from urllib.parse import quote_plus, urlencode

# How the client says who it is: in a header, or in the body of its request.
Style: TypeAlias = Literal["basic", "body"]


class Grant:
    """Client credentials, and where they go. Its ``repr`` shows nothing of them."""

    __slots__ = ("_client_id", "_client_secret", "_extras", "_style", "id", "token_url")

    def __init__(
        self,
        id_: str,
        *,
        token_url: str,
        client_id: str,
        client_secret: str,
        style: Style = "basic",
        **extras: str | None,
    ) -> None:
        """``id_`` is no other one's, nor this one's after a change; extras are a scope and such."""
        self.id = id_
        self.token_url = token_url
        self._client_id = client_id
        self._client_secret = client_secret
        self._style = style
        self._extras = {name: each for name, each in extras.items() if each is not None}

    def request(self) -> tuple[dict[str, str], bytes]:
        """The headers and the body that ask for a token."""
        headers = {
            "Accept": "application/json",
            "Content-Type": "application/x-www-form-urlencoded",
        }
        form = {"grant_type": "client_credentials", **self._extras}
        if self._style == "body":
            form |= {"client_id": self._client_id, "client_secret": self._client_secret}
        else:  # both are form-encoded first, as RFC 6749 has it
            pair = f"{quote_plus(self._client_id)}:{quote_plus(self._client_secret)}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        return headers, urlencode(form).encode()
