"""The connections of this event loop that are open: what is closed must not be among them."""

import asyncio


def open_connections() -> list[asyncio.Transport]:
    """Those that nobody has begun to close."""
    loop = asyncio.get_running_loop()
    return [each for each in loop._transports.values() if not each.is_closing()]
