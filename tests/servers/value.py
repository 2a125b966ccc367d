"""One value, asked of a server over a connection of its own."""

from typing import Any

import asyncpg


async def value(url: str, query: str, **options: Any) -> Any:
    """Connect, ask, and hang up."""
    connection = await asyncpg.connect(url, **options)
    try:
        return await connection.fetchval(query)
    finally:
        await connection.close()
