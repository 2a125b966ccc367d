"""Where credentials come from: the address, or where AWS's own tools look for them."""

import asyncio
from typing import Any

import botocore.session
from botocore.credentials import RefreshableCredentials
from botocore.exceptions import BotoCoreError

from duetime.errors import ConfigurationError, StoreUnavailable
from duetime.stores.dynamodb.address import Address
from duetime.stores.dynamodb.signing import Credentials


class Chain:
    """AWS's chain: environment, profile, container, instance; what runs out is renewed."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._found: Any = None
        self._finding = asyncio.Lock()

    async def credentials(self) -> Credentials:
        """Credentials that are valid now."""
        if self._address.credentials is not None:
            return self._address.credentials
        if self._is_stale():
            async with self._finding:
                if self._is_stale():
                    # Files and other servers are asked, one after the other: not on the loop.
                    await asyncio.to_thread(self._renew)
        frozen = self._found.get_frozen_credentials()
        return Credentials(frozen.access_key, frozen.secret_key, frozen.token)

    def _is_stale(self) -> bool:
        found = self._found
        return found is None or (
            isinstance(found, RefreshableCredentials) and bool(found.refresh_needed())
        )

    def _renew(self) -> None:
        try:
            if self._found is None:
                session = botocore.session.Session(profile=self._address.profile)
                self._found = session.get_credentials()
            if self._found is not None:
                self._found.get_frozen_credentials()
        except BotoCoreError as error:
            raise StoreUnavailable(f"DynamoDB: no valid credentials: {error}") from error
        if self._found is None:
            raise ConfigurationError(
                "DynamoDB: no credentials found; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
                "AWS_PROFILE, give the machine a role, or put the keys into the URL"
            )
