"""Lines of the audit: where they lie, what is asked for them, and when they are dropped."""

from duetime.stores.dynamodb.expiry import LATER
from duetime.stores.dynamodb.keys import Day
from tests.factories import NOW, make_line
from tests.servers.dynamodb import ask
from tests.stores.dynamodb.made import left
from tests.stores.dynamodb.test_removals import lose_first

DAY = 86_400_000


async def test_they_are_dropped_by_the_table(dynamodb, dynamodb_url):
    """Each when it is so old, and its day a week after the last of them may be; by nobody else."""
    line = make_line()
    await dynamodb.write_lines([line], 10 * DAY)
    dates = sorted(int(item["x"]["N"]) for item in await left(dynamodb_url))
    ends_at = Day.of("default", line.id).ends_at
    assert dates == [(NOW + 10 * DAY) // 1000 + 1, (ends_at + 10 * DAY + LATER) // 1000 + 1]
    said = await ask(dynamodb_url, "DescribeTimeToLive")
    assert said["TimeToLiveDescription"]["TimeToLiveStatus"] == "ENABLED"
    assert await dynamodb.drop_lines(NOW * 2, 9) == 0
    assert await dynamodb.lines("default", None, 9, descending=True) == [line]


async def test_a_day_stays_for_its_last_line(dynamodb, dropping, dynamodb_url):
    """Whoever keeps lines for longer, or for ever, keeps their day, whoever comes after that."""
    place = Day.of("default", make_line().id).in_list.key
    dates = []
    for store, keep_for in ((dynamodb, 2), (dropping, 3), (dynamodb, 1), (dropping, None)):
        await store.write_lines([make_line()], keep_for and keep_for * DAY)
        item = (await ask(dynamodb_url, "GetItem", Key=place))["Item"]
        dates.append(int(item["x"]["N"]) - (NOW // DAY * DAY + LATER) // 1000 if "x" in item else 0)
    assert dates == [3 * 86_400 + 1, 4 * 86_400 + 1, 4 * 86_400 + 1, 0]
    await dynamodb.write_lines([make_line()], 9 * DAY)
    assert "x" not in (await ask(dynamodb_url, "GetItem", Key=place))["Item"]


async def test_what_many_cost(dynamodb, asked):
    """They go by the batch; a day is listed once; nobody looks for days that have none."""
    await dynamodb.write_lines([make_line(at=NOW - 9_000 * DAY)], None)
    asked.forget()
    lines = [make_line() for _ in range(200)]
    await dynamodb.write_lines(lines, None)
    assert asked.operations == ["PutItem", *["BatchWriteItem"] * 8]
    asked.forget()
    await dynamodb.write_lines([make_line(at=NOW + 1)], None)
    assert asked.operations == ["BatchWriteItem"]
    asked.forget()
    assert len(await dynamodb.lines("default", None, 300, descending=False)) == 202
    assert asked.operations == ["Query"] * (1 + 4 + 4)  # the days, and the parts of both
    asked.forget()
    assert len(await dynamodb.lines("default", None, 50, descending=True)) == 50
    assert asked.operations == ["Query"] * (1 + 4)


async def test_an_answer_is_lost(dynamodb):
    """They are written again, and are there once."""
    lines = [make_line() for _ in range(3)]
    lose_first(dynamodb, "BatchWriteItem")
    await dynamodb.write_lines(lines, None)
    found = await dynamodb.lines("default", None, 9, descending=False)
    assert found == sorted(lines, key=lambda line: line.id)
