"""The Python client: ``Client`` for plain code, ``AsyncClient`` and ``Gatherer`` for asyncio.

    with Client("http://127.0.0.1:8080", api_key=key) as duetime:
        timer = duetime.create(
            delay="20m",
            callback={"type": "http", "url": "https://shop.example/carts/42/expire"},
        )
        duetime.cancel(timer["id"])

Every method answers with the data of the service's envelope. What is refused raises
``ServiceError``, with its status, code and message.
"""

from duetime.client.asynchronous import AsyncClient
from duetime.client.connection import DEFAULT_URL
from duetime.client.errors import ClientError, ServiceError, ServiceUnreachable
from duetime.client.gathering import Gatherer
from duetime.client.plain import Client

__all__ = [
    "DEFAULT_URL",
    "AsyncClient",
    "Client",
    "ClientError",
    "Gatherer",
    "ServiceError",
    "ServiceUnreachable",
]
