"""A door lets connections in until it is closed, and forgets none of them.

A server of asyncio's does: if it is closed while a connection is being made, that one is neither
served nor closed (Python 3.11). So the door listens by itself.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

_AT_ONCE = 100  # connections that are let in before anything else has its turn


@asynccontextmanager
async def open_door(
    host: str, port: int, protocol: Callable[[], asyncio.Protocol]
) -> AsyncIterator[int]:
    """Let in who comes while the context lasts; it gives the port, which is a free one for port 0.

    Behind it, every connection that was let in has been given to its protocol.
    """
    loop = asyncio.get_running_loop()
    entering: set[asyncio.Task[None]] = set()

    def let_in(listener: socket.socket) -> None:
        for _ in range(_AT_ONCE):
            try:
                taken, _address = listener.accept()
            except OSError:  # nobody is left, or who came is gone already
                return
            entering.add(task := loop.create_task(_enter(taken, protocol)))
            task.add_done_callback(entering.discard)

    async with AsyncExitStack() as stack:
        stack.push_async_callback(_all_in, entering)
        listeners = [
            stack.enter_context(socket.create_server(address[:2], family=family))
            for family, _, _, _, address in await loop.getaddrinfo(
                host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )
        ]
        for listener in listeners:
            listener.setblocking(False)
            loop.add_reader(listener, let_in, listener)
            stack.callback(loop.remove_reader, listener)
        yield int(listeners[0].getsockname()[1])


async def _enter(taken: socket.socket, protocol: Callable[[], asyncio.Protocol]) -> None:
    try:
        taken.setblocking(False)
        taken.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.get_running_loop().connect_accepted_socket(protocol, taken)
    except OSError:  # who came is gone already
        taken.close()


async def _all_in(entering: set[asyncio.Task[None]]) -> None:
    await asyncio.gather(*entering)
