"""The table: made if it is missing, and checked if it is there."""

import asyncio
import json
from contextlib import suppress
from typing import Any

from duetime.errors import ConfigurationError, StoreUnavailable
from duetime.stores.dynamodb.address import Address, Units
from duetime.stores.dynamodb.errors import Lost, Refused, unavailable
from duetime.stores.dynamodb.wire import Answer, Wire

INDEX = "due"
EXPIRY = "x"
MIGRATE_WITHIN = 60.0  # seconds until the table is there
ANSWER_WITHIN = 10.0
_LOOK_EVERY = 0.5

_KEYS = [{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}]
_INDEX_KEYS = [_KEYS[0], {"AttributeName": "w", "KeyType": "RANGE"}]
_PROJECTED = ["s", "v", "y"]


def definition(table: str, units: Units | None) -> dict[str, Any]:
    """What CreateTable is asked for."""
    billing: dict[str, Any] = {"BillingMode": "PAY_PER_REQUEST"}
    if units is not None:
        billing = {
            "BillingMode": "PROVISIONED",
            "ProvisionedThroughput": {
                "ReadCapacityUnits": units.read,
                "WriteCapacityUnits": units.write,
            },
        }
    return {
        "TableName": table,
        "AttributeDefinitions": [
            {"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk", "w")
        ],
        "KeySchema": _KEYS,
        "LocalSecondaryIndexes": [
            {
                "IndexName": INDEX,
                "KeySchema": _INDEX_KEYS,
                "Projection": {"ProjectionType": "INCLUDE", "NonKeyAttributes": _PROJECTED},
            }
        ],
        **billing,
    }


class Table:
    """Brings the table about."""

    def __init__(
        self, wire: Wire, address: Address, *, drops: bool, must_exist: bool = False
    ) -> None:
        self._wire = wire
        self._address = address
        self._must_exist = must_exist  # whether it is taken as it is, and never made
        self._drops = drops  # whether it is to drop what is past its time
        self._is_settled = False  # whether it does, or cannot be brought to it

    async def migrate(self) -> bool:
        """Return once the table is there as it must be, and tell whether this has made it.

        Two may do this at once: at most one has made it, and none if the answer to that was lost.
        """
        try:
            async with asyncio.timeout(MIGRATE_WITHIN):
                return await self._make_and_wait()
        except (Lost, Refused) as error:
            raise unavailable(error) from error
        except TimeoutError as error:
            raise StoreUnavailable(
                f"DynamoDB: the table was not ready within {MIGRATE_WITHIN:.0f} s"
            ) from error

    async def _make_and_wait(self) -> bool:
        found = await self._described()
        if found is None and self._must_exist:
            raise ConfigurationError(f"DynamoDB: there is no table {self._address.table}")
        is_made = found is None and await self._create()
        while found is None or found["TableStatus"] not in {"ACTIVE", "UPDATING"}:
            found = await self._described()
            if found is None or found["TableStatus"] not in {"ACTIVE", "UPDATING"}:
                await asyncio.sleep(_LOOK_EVERY)
        _check(found)
        if self._drops and not self._must_exist:
            await self._let_drop()
            self._is_settled = True
        return is_made

    async def let_drop(self) -> None:
        """See to it that the table drops what is past its time, though nobody asked at opening.

        Whoever needs that has written already, or is about to. So it fails in silence: what has a
        date goes as soon as somebody has turned it on, and without the right to it nobody tries
        again.
        """
        if self._is_settled:
            return
        with suppress(Lost, Refused):  # the next who needs it tries again
            with suppress(ConfigurationError):
                await self._let_drop()
            self._is_settled = True

    async def _described(self) -> Answer | None:
        try:
            answer = await self._call("DescribeTable", TableName=self._address.table)
        except Refused as error:
            if error.code == "ResourceNotFoundException":
                return None
            raise
        return dict(answer["Table"])

    async def _create(self) -> bool:
        wanted = definition(self._address.table, self._address.units)
        try:
            await self._call("CreateTable", **wanted)
        except Refused as error:
            if error.code == "AccessDeniedException":
                raise ConfigurationError(
                    f"DynamoDB: there is no table {self._address.table}, and these credentials "
                    "may not create it; somebody who may can do so with: "
                    f"aws dynamodb create-table --cli-input-json '{json.dumps(wanted)}'"
                ) from error
            if error.code != "ResourceInUseException":
                raise
            return False  # Somebody else was quicker.
        return True

    async def _let_drop(self) -> None:
        table = self._address.table
        answer = await self._call("DescribeTimeToLive", TableName=table)
        said = answer["TimeToLiveDescription"]
        if said.get("TimeToLiveStatus") in {"ENABLED", "ENABLING"}:
            if said.get("AttributeName") != EXPIRY:
                raise ConfigurationError(
                    f"DynamoDB: table {table} drops items by {said.get('AttributeName')}, "
                    f"and must do so by {EXPIRY}"
                )
            return
        wanted = {"Enabled": True, "AttributeName": EXPIRY}
        try:
            await self._call("UpdateTimeToLive", TableName=table, TimeToLiveSpecification=wanted)
        except Refused as error:
            if error.code == "AccessDeniedException":
                raise ConfigurationError(
                    f"DynamoDB: RETENTION needs the time to live of table {table}, and these "
                    "credentials may not turn it on; somebody who may can do so with: "
                    f"aws dynamodb update-time-to-live --table-name {table} "
                    f"--time-to-live-specification '{json.dumps(wanted)}'"
                ) from error
            if error.code != "ValidationException":  # Somebody else has just turned it on.
                raise

    async def _call(self, operation: str, **arguments: Any) -> Answer:
        return await self._wire.call(operation, arguments, ANSWER_WITHIN)


def _check(found: Answer) -> None:
    """Refuse a table that is somebody else's."""
    name = found["TableName"]
    indexes = {index["IndexName"]: index for index in found.get("LocalSecondaryIndexes", ())}
    types = {each["AttributeName"]: each["AttributeType"] for each in found["AttributeDefinitions"]}
    wrong = None
    if found["KeySchema"] != _KEYS:
        wrong = "its keys must be pk and sk"
    elif INDEX not in indexes or indexes[INDEX]["KeySchema"] != _INDEX_KEYS:
        wrong = f"it must have a local secondary index {INDEX} by pk and w"
    elif not _has_all(indexes[INDEX]["Projection"]):
        wrong = f"its index {INDEX} must include {', '.join(_PROJECTED)}"
    elif any(types.get(key) != "S" for key in ("pk", "sk", "w")):
        wrong = "pk, sk and w must be of type S"
    if wrong is not None:
        raise ConfigurationError(
            f"DynamoDB: table {name} is not one of Duetime's: {wrong}; name another one, "
            "and it will be made"
        )


def _has_all(projection: dict[str, Any]) -> bool:
    if projection["ProjectionType"] == "ALL":
        return True
    return set(_PROJECTED) <= set(projection.get("NonKeyAttributes", ()))
