"""The gatherer with a real service: timers that share requests are created as if they did not."""

import asyncio
from pathlib import Path

from duetime.client import AsyncClient, ClientError, Gatherer, ServiceError
from tests.system.service import API_KEY, ServiceProcess, running_service
from tests.waiting import until

TIMER = {"delay": "1h", "callback": {"type": "http", "url": "http://127.0.0.1:9/hook"}}


def client_of(service: ServiceProcess) -> AsyncClient:
    return AsyncClient(f"http://127.0.0.1:{service.port}", api_key=API_KEY)


async def outcomes(together: Gatherer, *timers):
    creating = (together.create(**{**TIMER, **timer}) for timer in timers)
    return await asyncio.gather(*creating, return_exceptions=True)


def refusal(error: ServiceError):
    return error.status, error.code, error.message


async def test_many_at_the_same_time(tmp_path: Path):
    """Each is answered with its own timer, and is there; again, each with the same."""
    keys = [f"key-{number}" for number in range(1_200)]
    async with running_service(tmp_path) as service, client_of(service) as duetime:
        together = Gatherer(duetime)
        timers = await outcomes(together, *({"timer_id": key, "group": "g"} for key in keys))
        assert [timer["timer_id"] for timer in timers] == keys
        listed = {timer["id"]: timer["timer_id"] async for timer in duetime.list(group="g")}
        assert listed == {timer["id"]: timer["timer_id"] for timer in timers}
        again = await outcomes(together, *({"timer_id": key, "group": "g"} for key in keys))
        assert [timer["id"] for timer in again] == [timer["id"] for timer in timers]


async def test_refused_as_if_alone(tmp_path: Path):
    """What is wrong with a timer is said as `create` would say it, and the others are created."""
    wrong = [
        {"delay": "soon"},
        {"colour": "red"},
        {"delay": "1h", "execute_at": "2090-01-01T00:00:00Z"},
        {"callback": {"type": "smtp", "url": "http://127.0.0.1:9/"}},
        {"callback": {"type": "http", "url": "http://127.0.0.1:9/", "payload": "x" * 3_000_000}},
        {"timer_id": "taken", "delay": "2h"},
    ]
    async with running_service(tmp_path) as service, client_of(service) as duetime:
        await duetime.create(**TIMER, timer_id="taken")
        alone = [(await outcomes(Gatherer(duetime), timer))[0] for timer in wrong]
        good = [{"name": str(number)} for number in range(len(wrong))]
        mixed = [each for pair in zip(wrong, good, strict=True) for each in pair]
        together = await outcomes(Gatherer(duetime), *mixed)
    assert [timer["name"] for timer in together[1::2]] == [timer["name"] for timer in good]
    assert [refusal(error) for error in together[::2]] == [refusal(error) for error in alone]
    assert {error.status for error in alone} == {400, 409, 413}


async def test_quotas_of_requests(tmp_path: Path):
    """A tenant or a group that may have few timers in a request has as many as it wants in all."""
    async with running_service(tmp_path) as service, client_of(service) as duetime:
        await duetime.update_tenant("default", quotas={"batch_size": 5})
        await duetime.put_group("g", quotas={"batch_size": 2})
        timers = [{"name": str(number), "group": "gh"[number % 2]} for number in range(60)]
        made = await outcomes(Gatherer(duetime), *timers)
        assert [timer["name"] for timer in made] == [timer["name"] for timer in timers]
        assert (await duetime.page())["total"] == 60


async def test_a_quota_of_timers(tmp_path: Path):
    """As many are created as may wait, and the others are told why they are not."""
    async with running_service(tmp_path) as service, client_of(service) as duetime:
        await duetime.update_tenant("default", quotas={"pending": 7})
        made = await outcomes(Gatherer(duetime), *({"name": str(number)} for number in range(20)))
        refused = [each for each in made if isinstance(each, ServiceError)]
        assert {(error.status, error.code) for error in refused} == {(429, 7)}
        assert (len(refused), (await duetime.page())["total"]) == (13, 7)


async def test_a_service_that_is_killed(tmp_path: Path):
    """Whatever was acknowledged is there; whoever waits is told, and can create it again."""
    async with running_service(tmp_path) as service, client_of(service) as duetime:
        together = Gatherer(duetime)
        made: dict[str, str] = {}
        unknown: list[str] = []

        async def create(key: str) -> None:
            timer = await together.create(**TIMER, timer_id=key)
            made[key] = timer["id"]

        async def keep_creating(number: int) -> None:
            for turn in range(1_000_000):
                key = f"{number}-{turn}"
                try:
                    await create(key)
                except ClientError:
                    unknown.append(key)
                    return

        load = [asyncio.create_task(keep_creating(number)) for number in range(64)]
        await until(lambda: len(made) > 500)
        await service.kill()
        await asyncio.gather(*load)
        assert len(unknown) == 64
        await service.start()
        await asyncio.gather(*map(create, unknown))
        stored = {timer["timer_id"]: timer["id"] async for timer in duetime.list()}
        assert stored == made
