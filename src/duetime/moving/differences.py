"""The differences between two stores, looked for once their checksums have shown that there are."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from duetime.moving.contents import Contents


async def differences(source: Contents, target: Contents, most: int) -> list[str]:
    """What differs, a few words for each, and no more than so many."""
    found: list[str] = []
    async with aclosing(_differences(source, target)) as differing:
        async for words in differing:
            found.append(words)
            if len(found) == most:
                break
    return found or ["the events that wait to be published differ"]


async def _differences(source: Contents, target: Contents) -> AsyncGenerator[str]:
    after: str | None = None
    while part := await source.timers(after):
        others = await target.get([laden.timer.id for laden in part])
        for laden, other in zip(part, others, strict=True):
            if other is None:
                yield f"{laden.timer.id} is missing in the target"
            elif other != laden:
                yield f"{laden.timer.id} differs in the target"
        after = part[-1].timer.id
    after = None
    while part := await target.timers(after):
        others = await source.get([laden.timer.id for laden in part])
        for laden, other in zip(part, others, strict=True):
            if other is None:
                yield f"{laden.timer.id} is in the target only"
        after = part[-1].timer.id
    if await source.records() != await target.records():
        yield "the records differ"
