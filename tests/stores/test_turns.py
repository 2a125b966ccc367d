"""Turns: a bounded number at once, in order, and no place ever lost."""

import asyncio

import pytest

from duetime.errors import StoreUnavailable
from duetime.stores.turns import Turns

FULL = "all were in use for {within:.0f} s"


async def test_whoever_comes_first_is_next():
    """Those who wait get the places in the order in which they came."""
    turns, order = Turns(1, FULL), []
    await turns.enter(5)

    async def wait(number):
        await turns.enter(5)
        order.append(number)
        turns.leave()

    waiting = [asyncio.create_task(wait(number)) for number in range(3)]
    await asyncio.sleep(0)
    turns.leave()
    await asyncio.gather(*waiting)
    assert order == [0, 1, 2]
    assert turns.taken == 0


async def test_who_waits_in_vain_is_told():
    """And takes no place with him."""
    turns = Turns(1, FULL)
    await turns.enter(5)
    with pytest.raises(StoreUnavailable, match="all were in use for 0 s"):
        await turns.enter(0.001)
    turns.leave()
    assert turns.taken == 0


async def test_a_place_for_a_block_is_given_back():
    """Also when the work in it fails; and who waits for one in vain is told."""
    turns = Turns(1, FULL)

    async def work(within):
        async with turns.taken_within(within):
            assert turns.taken == 1
            with pytest.raises(StoreUnavailable, match="all were in use for 0 s"):
                await work(0.001)
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await work(5)
    assert turns.taken == 0


async def test_what_has_begun_goes_on_though_its_caller_leaves():
    """It keeps its place until its end; what waits in line for one is not begun any more."""
    turns, begun, may_end = Turns(1, FULL), [], asyncio.Event()

    async def work():
        begun.append(True)
        await may_end.wait()

    callers = [asyncio.create_task(turns.run(work, 5)) for _ in range(2)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    for caller in callers:
        caller.cancel()
    await asyncio.wait(callers)
    assert turns.taken == 1
    closing = asyncio.create_task(turns.close())
    await asyncio.sleep(0)
    assert not closing.done()
    may_end.set()
    await closing
    assert begun == [True]
    assert turns.taken == 0


async def test_a_turn_that_comes_to_one_who_leaves_is_passed_on():
    """A caller who goes away just when his turn has come leaves no gap."""
    turns = Turns(1, FULL)
    await turns.enter(5)
    first, second = (asyncio.create_task(turns.enter(5)) for _ in range(2))
    await asyncio.sleep(0)
    turns.leave()
    first.cancel()
    await second
    assert first.cancelled()
    turns.leave()
    assert turns.taken == 0


async def test_closing_waits_for_those_inside_and_sends_the_others_away():
    """And lets nobody in any more."""
    turns = Turns(1, FULL)
    await turns.enter(5)
    waiting = asyncio.create_task(turns.enter(5))
    await asyncio.sleep(0)
    closing = asyncio.create_task(turns.close())
    with pytest.raises(StoreUnavailable, match="closed"):
        await waiting
    assert not closing.done()
    turns.leave()
    await closing
    with pytest.raises(StoreUnavailable, match="closed"):
        await turns.enter(5)
