"""Sockets that are connected, to an address and never to a name: there is no DNS here."""

import asyncio
import socket


async def connect(address: str, port: int) -> socket.socket:
    """A socket that is connected; OSError if there is none."""
    numeric = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
    found = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM, flags=numeric)
    family, kind, protocol, _, at = found[0]
    plain = socket.socket(family, kind, protocol)
    try:
        plain.setblocking(False)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.get_running_loop().sock_connect(plain, at)
    except BaseException:
        plain.close()
        raise
    return plain
