"""Where credentials come from: the address, or where AWS's own tools look for them."""

import asyncio
from typing import Any

import botocore.session
from botocore.credentials import RefreshableCredentials

from duetime.errors import ConfigurationError, StoreUnavailable
from duetime.stores.dynamodb.address import Address
from duetime.stores.dynamodb.signing import Credentials

# Seconds in which credentials must be found, and between two tries to renew those that run out.
FIND_WITHIN = 10.0
RENEW_EVERY = 10.0


class Chain:
    """AWS's chain: environment, profile, container, instance; what runs out is renewed."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._found: Any = None  # botocore's, which know how to renew themselves
        self._valid = address.credentials
        self._finding = asyncio.Lock()
        self._renew_at = 0.0  # not before that, on the clock of the event loop

    async def credentials(self) -> Credentials:
        """Credentials that are valid now, as far as anybody knows.

        They are renewed a quarter of an hour before they run out. If that fails, those that there
        are still do, and it is tried again a little later.
        """
        if self._is_wanted():
            async with self._finding:
                if self._is_wanted():
                    await self._find()
        if self._valid is None:
            raise StoreUnavailable("DynamoDB: no valid credentials could be had")
        return self._valid

    def _is_wanted(self) -> bool:
        if self._valid is None:
            return True
        is_stale = isinstance(self._found, RefreshableCredentials) and self._found.refresh_needed()
        return bool(is_stale) and asyncio.get_running_loop().time() >= self._renew_at

    async def _find(self) -> None:
        try:
            # Files and other servers are asked, one after the other: not on the loop.
            async with asyncio.timeout(FIND_WITHIN):
                self._valid = await asyncio.to_thread(self._renewed)
        except ConfigurationError:
            raise
        except Exception as error:
            # Whatever the servers that give out roles, and botocore, may come up with.
            self._renew_at = asyncio.get_running_loop().time() + RENEW_EVERY
            if self._valid is None:
                why = str(error) or "no answer in time"
                raise StoreUnavailable(f"DynamoDB: no valid credentials: {why}") from error

    def _renewed(self) -> Credentials:
        if self._found is None:
            session = botocore.session.Session(profile=self._address.profile)
            self._found = session.get_credentials()
        if self._found is None:
            raise ConfigurationError(
                "DynamoDB: no credentials found; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
                "AWS_PROFILE, give the machine a role, or put the keys into the URL"
            )
        frozen = self._found.get_frozen_credentials()
        return Credentials(frozen.access_key, frozen.secret_key, frozen.token)
