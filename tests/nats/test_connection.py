"""A connection publishes, listens and asks, and strangers understand it."""

import asyncio

import pytest

from duetime.errors import MessageTooLarge, NatsUnavailable, NoResponders
from duetime.nats import headers
from duetime.nats.connection import Connection
from tests.nats.conftest import Connected, Heard, Stranger, heard_of, listening
from tests.servers.fixtures import OwnServer

WITHIN = 10.0


async def test_what_is_published_is_heard(url: str, subject: str, connected: Connected):
    """In the order in which it was published, on the subject and below, if that was asked for."""
    ours = await connected(url)
    heard, below = Heard(), Heard()
    ours.subscribe(subject, heard.append)
    ours.subscribe(f"{subject}.>", below.append)
    for number in range(100):
        ours.publish(subject, b"%d" % number)
    ours.publish(f"{subject}.a.b", b"")
    assert await ours.flush(WITHIN) == frozenset()
    await below.are(1)
    assert heard.data == [b"%d" % number for number in range(100)]
    assert (below[0].subject, below[0].data) == (f"{subject}.a.b", b"")


async def test_a_stranger_hears_us(
    url: str, subject: str, connected: Connected, stranger: Stranger
):
    """With headers, and with a payload that looks like the protocol."""
    ours, theirs = await connected(url), await stranger(url)
    heard = await listening(theirs, subject)
    block = headers.written({"One": "1", "Two": "zwei: 2"})
    ours.publish(subject, b"\r\nMSG x 1 5\r\nhello\r\n", headers=block, reply="there")
    await ours.flush(WITHIN)
    [message] = await heard.are(1)
    assert message.data == b"\r\nMSG x 1 5\r\nhello\r\n"
    assert message.headers == {"One": "1", "Two": "zwei: 2"}
    assert message.reply == "there"


async def test_we_hear_a_stranger(url: str, subject: str, connected: Connected, stranger: Stranger):
    """With headers, and as much as a server lets through."""
    ours, theirs = await connected(url), await stranger(url)
    heard = Heard()
    ours.subscribe(subject, heard.append)
    await ours.flush(WITHIN)
    large = bytes(1024 * 1024)
    await theirs.publish(subject, large, reply="back")
    await theirs.publish(subject, b"small", headers={"Some": "header"})
    await theirs.flush()
    await heard.are(2)
    assert heard.data == [large, b"small"]
    assert (heard[0].reply, heard[0].headers) == ("back", {})
    assert (heard[1].reply, heard[1].headers, heard[1].status) == ("", {"Some": "header"}, None)


async def test_those_in_a_queue_share(url: str, subject: str, connected: Connected):
    """Each message goes to one of them, and to everybody outside it."""
    ours = await connected(url)
    first, second, other = Heard(), Heard(), Heard()
    ours.subscribe(subject, first.append, queue="workers")
    ours.subscribe(subject, second.append, queue="workers")
    ours.subscribe(subject, other.append)
    for number in range(200):
        ours.publish(subject, b"%d" % number)
    await ours.flush(WITHIN)
    await other.are(200)
    assert sorted(first.data + second.data) == sorted(other.data)
    assert first
    assert second


async def test_who_has_ended_hears_nothing_more(url: str, subject: str, connected: Connected):
    """To end twice does no harm."""
    ours = await connected(url)
    ended, other = Heard(), Heard()
    ending = ours.subscribe(subject, ended.append)
    ours.subscribe(subject, other.append)
    ours.publish(subject, b"1")
    await other.are(1)
    ending.end()
    ending.end()
    ours.publish(subject, b"2")
    await other.are(2)
    assert ended.data == [b"1"]


async def test_one_who_raises_disturbs_nobody(
    url: str, subject: str, connected: Connected, caplog: pytest.LogCaptureFixture
):
    """It is logged, and the others hear on."""
    ours = await connected(url)
    heard = Heard()

    def fail(_: object) -> None:
        raise RuntimeError("as told")

    ours.subscribe(subject, fail)
    ours.subscribe(subject, heard.append)
    ours.publish(subject, b"1")
    ours.publish(subject, b"2")
    assert (await heard.are(2)).data == [b"1", b"2"]
    assert f"what came in on {subject} could not be taken" in caplog.text


async def test_a_request_is_answered(
    url: str, subject: str, connected: Connected, stranger: Stranger
):
    """By a stranger; many at once, each with its own answer."""
    ours, theirs = await connected(url), await stranger(url)

    async def answer(message):
        await message.respond(b"re: " + message.data)

    await theirs.subscribe(subject, cb=answer)
    await heard_of(theirs)
    asked = [ours.request(subject, b"%d" % number, within=WITHIN) for number in range(50)]
    answers = await asyncio.gather(*asked)
    assert [message.data for message in answers] == [b"re: %d" % number for number in range(50)]


async def test_nobody_listens(url: str, subject: str, connected: Connected):
    """The server says so at once."""
    ours = await connected(url)
    with pytest.raises(NoResponders, match=f"nobody listens on {subject}"):
        await ours.request(subject, b"", within=WITHIN)


async def test_nobody_answers(url: str, subject: str, connected: Connected, stranger: Stranger):
    """Who listens and says nothing is not waited for for ever; the connection stays."""
    ours, theirs = await connected(url), await stranger(url)
    await theirs.subscribe(subject)
    await heard_of(theirs)
    with pytest.raises(NatsUnavailable, match=f"nobody answered on {subject} in time"):
        await ours.request(subject, b"", within=0.05)
    await ours.flush(WITHIN)


async def test_what_is_too_large_is_refused(url: str, subject: str, connected: Connected):
    """Before it is sent: the server would hang up."""
    ours = await connected(url)
    assert ours.max_payload == 1024 * 1024
    ours.publish(subject, bytes(ours.max_payload))
    block = headers.written({"a": "b"})
    with pytest.raises(MessageTooLarge, match=r"has 1048594 bytes .* takes 1048576 at most"):
        ours.publish(subject, bytes(ours.max_payload), headers=block)
    await ours.flush(WITHIN)


async def test_many_share_one_answer(url: str, subject: str, connected: Connected):
    """One who gives up does not take the others with them."""
    ours = await connected(url)
    waiting = [asyncio.create_task(ours.flush(WITHIN)) for _ in range(10)]
    await asyncio.sleep(0)
    assert ours._link is not None
    assert len(ours._link._pings) + (ours._link._group is not None) == 1
    waiting[0].cancel()
    done = await asyncio.gather(*waiting, return_exceptions=True)
    assert isinstance(done[0], asyncio.CancelledError)
    assert done[1:] == [frozenset()] * 9


@pytest.fixture
async def confined(own_server: OwnServer, connected: Connected) -> Connection:
    """A connection that may not publish below one subject."""
    server = own_server(
        "nats",
        configuration='authorization { users: [ { user: "a", password: "b", '
        'permissions: { publish: { deny: "closed.>" } } } ] }',
    )
    return await connected(f"nats://a:b@127.0.0.1:{server.port}")


async def test_subjects_that_are_not_permitted_are_told(confined: Connection):
    """By the flush that covers them, and by no other."""
    confined.publish("open", b"")
    confined.publish("closed.door", b"")
    assert await confined.flush(WITHIN) == {"closed.door"}
    confined.publish("open", b"")
    assert await confined.flush(WITHIN) == frozenset()


@pytest.mark.parametrize(
    "subject",
    [
        'closed."door"',
        "closed.d\\oor",
        "closed.'door'",
        "closed.Tür🚪",
        "closed.\u0378x\U000e0100",
        'closed.\\"' + '"' * 240,
        "closed.%d",
    ],
)
async def test_however_they_are_spelled(confined: Connection, subject: str):
    """The server quotes them when it complains."""
    confined.publish(subject, b"")
    assert await confined.flush(WITHIN) == {subject}


async def test_those_who_publish_much_at_once_are_told_too(confined: Connection):
    """Also if so much leaves in one turn that it is written in parts."""
    large = bytes(1024 * 1024 - 1024)
    confined.publish("open", large)
    first = asyncio.ensure_future(confined.flush(WITHIN))
    await asyncio.sleep(0)  # it waits for the end of this turn
    confined.publish("open", large)
    others = [asyncio.ensure_future(confined.flush(WITHIN))]

    async def publish(subject: str) -> frozenset[str]:
        confined.publish(subject, large)
        return await confined.flush(WITHIN)

    subjects = ["open", "closed.1", "open", "closed.2", "open"]
    answers = await asyncio.gather(*map(publish, subjects))
    for subject, refused in zip(subjects, answers, strict=True):
        assert (subject in refused) == subject.startswith("closed")
    await asyncio.gather(first, *others)


async def test_complaints_do_not_fill_the_log(
    confined: Connection, caplog: pytest.LogCaptureFixture
):
    """Each is told once, and of many different ones only the first."""
    for number in range(1000):
        confined.publish(f"closed.{number % 500}", b"")
    assert len(await confined.flush(WITHIN)) == 500
    told = [record.message for record in caplog.records if "complains" in record.message]
    assert 1 < len(told) == len(set(told)) < 50


async def test_what_was_published_leaves_before_it_is_closed(
    url: str, subject: str, connected: Connected, stranger: Stranger
):
    """And nothing can be published after that; to close twice does no harm."""
    ours, theirs = await connected(url), await stranger(url)
    heard = await listening(theirs, subject)
    for number in range(10):
        ours.publish(subject, b"%d" % number)
    await ours.close()
    await ours.close()
    assert (await heard.are(10)).data == [b"%d" % number for number in range(10)]
    with pytest.raises(NatsUnavailable, match="there is no connection"):
        ours.publish(subject, b"")
    with pytest.raises(NatsUnavailable, match="there is no connection"):
        await ours.flush(WITHIN)
