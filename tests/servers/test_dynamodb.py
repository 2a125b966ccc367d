"""DynamoDB Local answers, keeps what it acknowledged, and hangs when it is paused."""

import pytest

from tests.servers.dynamodb import DynamoServer, ask
from tests.servers.fixtures import OwnServer

TABLE = {
    "BillingMode": "PAY_PER_REQUEST",
    "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
    "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
}


@pytest.mark.slow
async def test_acknowledged_writes_survive_a_crash(own_server: OwnServer):
    """What it said yes to is there after kill -9 and a start."""
    server: DynamoServer = own_server("dynamodb")
    url = server.url("kept")
    await ask(url, "CreateTable", **TABLE)
    for number in range(50):
        await ask(url, "PutItem", Item={"pk": {"S": str(number)}})
    server.crash()
    server.start()
    assert (await ask(url, "Scan", Select="COUNT", ConsistentRead=True))["Count"] == 50


@pytest.mark.slow
async def test_paused_it_does_not_answer(own_server: OwnServer):
    """A paused server leaves whoever asks waiting, and answers again when it is resumed."""
    server: DynamoServer = own_server("dynamodb")
    await ask(server.url(), "ListTables")
    server.pause()
    with pytest.raises(TimeoutError):
        await ask(server.url(), "ListTables", within=0.5)
    server.resume()
    assert await ask(server.url(), "ListTables") == {"TableNames": []}
