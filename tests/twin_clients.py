"""Twin clients: the plain one and the asyncio one, which must do the same."""

import inspect

from duetime.client import AsyncClient, Client
from tests.fake_service import KEY


class Twin:
    """Calls a method of both clients, and expects them to do the same."""

    def __init__(self, service, **options) -> None:
        self.service = service
        self.options = {"api_key": KEY, **options}

    async def __call__(self, method, *args, **kwargs):
        with Client(self.service.url, **self.options) as client:
            answer = getattr(client, method)(*args, **kwargs)
            if inspect.isgenerator(answer):
                answer = list(answer)
        async with AsyncClient(self.service.url, **self.options) as client:
            coming = getattr(client, method)(*args, **kwargs)
            is_many = inspect.isasyncgen(coming)
            same = [each async for each in coming] if is_many else await coming
        assert answer == same
        half = len(self.service.requests) // 2
        sent = [request[:2] + request[3:] for request in self.service.requests]
        assert sent[:half] == sent[half:]
        return answer
