"""Storing new timers."""

import asyncio

import msgspec
import pytest
from msgspec import Raw

from duetime import ids
from duetime.retry import RetryPolicy
from duetime.stores import Insert
from duetime.timer import HttpCallback, NatsCallback, Outcome, Progress, Status
from duetime.timer import Kind as OutcomeKind
from tests.factories import NOW, insert, key_of, make_attempt, make_event, make_spec, make_timer

YEAR = 365 * 86_400_000  # milliseconds

pytestmark = pytest.mark.promise("one-contract")


async def test_a_new_timer_is_stored(store):
    """A timer whose key and id are free is stored, and the answer is None."""
    timer = make_timer()
    assert await store.insert([Insert(timer)]) == [None]
    assert await store.get([timer.id]) == [timer]


async def test_every_field_comes_back(store):
    """What is read equals what was stored, in every field."""
    timer = make_timer(
        tenant="acme",
        group="mail",
        version=7,
        status=Status.FAILED,
        wake_at=None,
        executed_at=NOW + 3,
        fingerprint="f00d",
        spec=make_spec(
            callback=NatsCallback(
                topic="a.b", key="c", headers={"h": "v"}, payload=Raw(b"[1]"), jetstream=True
            ),
            name="reminder",
            tags=("b", "a", "b"),
            metadata=Raw(b'{"k": 1}'),
            retry_policy=RetryPolicy(max_attempts=4, backoff_multiplier=1.5, max_duration=9),
            deadline=5,
            retention=10 * YEAR,  # or some stores would drop it by themselves, a second later
            response_bytes=7,
            response_headers=("x-request-id", "etag"),
            signatures=(),
        ),
        progress=Progress(
            occurrence=2,
            attempt=3,
            failures=2,
            lost=1,
            first_attempt_at=NOW,
            claimed_at=NOW + 1,
            claimed_by="n",
            last_error="no",
            outcome=Outcome(
                kind=OutcomeKind.RESPONSE,
                status_code=200,
                error="no",
                retry_at=NOW,
                response="{}",
                response_headers={"etag": "ü"},
            ),
        ),
    )
    await insert(store, timer)
    assert await store.get([timer.id]) == [timer]


JSON = [b'{ "a" :1.10,\t"b":[ ]}', b'"\\u00e9\\/"', '{"é":"😀"}'.encode(), b"1e400", b"null"]


async def test_json_of_the_users_is_kept_byte_for_byte(store, subtests):
    """Payload and metadata come back as the very bytes that were sent."""
    for raw in JSON:
        with subtests.test(repr(raw)):
            callback = HttpCallback(url="https://example.com", payload=Raw(raw))
            timer = make_timer(spec=make_spec(callback=callback, metadata=Raw(raw)))
            await insert(store, timer)
            (read,) = await store.get([timer.id])
            assert bytes(read.spec.callback.payload) == raw
            assert bytes(read.spec.metadata) == raw


ODD = [
    "'; DROP TABLE timers; --",
    "\u200b\u202e\ufeff",
    "😀\U0010ffff",
    "é",
    "e\u0301",
    '\x01\x7f\\"]',
]


async def test_odd_text_is_kept(store, subtests):
    """Any characters may stand in names, keys and tags, and none is changed."""
    for text in ODD:
        with subtests.test(ascii(text)):
            spec = make_spec(name=text, tags=(text,), correlation_id=text)
            timer = make_timer(tenant=text, group=text, timer_id=text, spec=spec)
            await insert(store, timer)
            assert await store.get([timer.id]) == [timer]
            assert await store.get_by_key([key_of(timer)]) == [timer]


async def test_texts_that_only_look_alike_are_different_keys(store):
    """Keys are compared character by character: case and composition count."""
    timers = [make_timer(timer_id=text) for text in ("é", "e\u0301", "É", "a", "A", "a ", " a")]
    await insert(store, *timers)
    assert await store.get_by_key([key_of(timer) for timer in timers]) == timers


async def test_a_big_payload_is_stored(store):
    """A payload of 300 KB is stored like any other."""
    payload = Raw(b'"' + b"x" * 300_000 + b'"')
    spec = make_spec(callback=HttpCallback(url="https://example.com", payload=payload))
    timers = [make_timer(spec=spec) for _ in range(5)]
    await insert(store, *timers)
    assert await store.get([timer.id for timer in timers]) == timers


async def test_a_taken_key_answers_with_the_stored_timer(store):
    """A timer whose key is taken is not stored, and the answer is the one that has it."""
    first = make_timer(timer_id="same")
    second = make_timer(timer_id="same")
    await insert(store, first)
    assert await store.insert([Insert(second)]) == [first]
    assert await store.get([first.id, second.id]) == [first, None]


async def test_a_taken_id_answers_with_the_stored_timer(store):
    """The same timer inserted again, as after a lost answer, is answered with the stored one."""
    timer = make_timer()
    await insert(store, timer)
    assert await store.insert([Insert(timer)]) == [timer]


async def test_an_id_taken_under_another_key_answers_with_its_owner(store):
    """An id can only belong to one timer, whatever the keys are."""
    first = make_timer()
    second = make_timer(id=first.id)
    await insert(store, first)
    assert await store.insert([Insert(second)]) == [first]
    assert await store.get_by_key([key_of(second)]) == [None]


async def test_the_same_key_in_another_group_or_tenant_is_free(store):
    """A key is tenant, group and timer_id together."""
    await insert(
        store,
        make_timer(timer_id="same"),
        make_timer(timer_id="same", group="other"),
        make_timer(timer_id="same", tenant="other"),
    )


async def test_one_key_twice_in_a_batch_is_stored_once(store):
    """Of two timers with one key in a batch, the first is stored and answers for the second."""
    first, second = make_timer(timer_id="same"), make_timer(timer_id="same")
    other = make_timer()
    answers = await store.insert([Insert(first), Insert(second), Insert(other)])
    assert answers == [None, first, None]
    assert await store.get([first.id, second.id, other.id]) == [first, None, other]


@pytest.mark.parametrize("has_events", [True, False])
async def test_one_id_twice_in_a_batch_is_stored_once(store, has_events):
    """Of two timers with one id and two keys, the first is stored and answers for the second."""
    first = make_timer()
    second = make_timer(id=first.id)
    batch = [Insert(timer, (make_event(timer),) if has_events else ()) for timer in (first, second)]
    assert await store.insert(batch) == [None, first]
    assert await store.get_by_key([key_of(first), key_of(second)]) == [first, None]
    assert await store.events(ids.ALL_SHARDS, None, 10) == list(batch[0].events)


async def test_a_taken_key_does_not_stop_its_batch(store):
    """Each timer of a batch stands for itself."""
    taken = make_timer()
    await insert(store, taken)
    batch = [make_timer(), make_timer(timer_id=taken.timer_id), make_timer()]
    assert await store.insert([Insert(timer) for timer in batch]) == [None, taken, None]
    assert await store.get([timer.id for timer in batch]) == [batch[0], None, batch[2]]


async def test_two_concurrent_inserts_of_one_key_store_one(store):
    """Of many that insert one key at once, one stores it and all others are shown that one."""
    rivals = [make_timer(timer_id="same") for _ in range(20)]
    answers = await asyncio.gather(*(store.insert([Insert(timer)]) for timer in rivals))
    winners = [timer for timer, (answer,) in zip(rivals, answers, strict=True) if answer is None]
    assert len(winners) == 1
    assert [answer for (answer,) in answers if answer is not None] == winners * 19


async def test_two_concurrent_inserts_of_one_key_tell_of_one(store):
    """Of many that insert one key at once, only the one that is stored is told of."""
    rivals = [make_timer(timer_id="same") for _ in range(10)]
    inserts = [Insert(timer, (make_event(timer),)) for timer in rivals]
    answers = await asyncio.gather(*(store.insert([each]) for each in inserts))
    [winner] = [each for each, (answer,) in zip(inserts, answers, strict=True) if answer is None]
    assert [answer for (answer,) in answers if answer is not None] == [winner.timer] * 9
    assert await store.events(ids.ALL_SHARDS, None, 10) == list(winner.events)


async def test_a_large_batch_is_stored(store):
    """A batch of 2,500 is stored whole and answered in order, its taken keys among them."""
    taken = [make_timer() for _ in range(3)]
    await insert(store, *taken)
    batch = [make_timer() for _ in range(2_500)]
    places = (0, 1_100, 2_499)
    for place, owner in zip(places, taken, strict=True):
        batch[place] = make_timer(timer_id=owner.timer_id)
    answers = await store.insert([Insert(timer) for timer in batch])
    assert [place for place, answer in enumerate(answers) if answer is not None] == list(places)
    assert [answers[place] for place in places] == taken
    stored = await store.get([timer.id for timer in batch])
    assert [read or None for read in stored] == [
        None if place in places else timer for place, timer in enumerate(batch)
    ]


FEW_AND_MANY = (3, 120)  # which a store may have different ways for


def keyless(number):
    """Timers that were given no key, so that each has its id for one, with all that may be theirs.

    A store may take it that nobody has such a key already, but must not rely on it.
    """
    timers = [make_timer(spec=make_spec(tags=("a", "b"))) for _ in range(number)]
    timers = [msgspec.structs.replace(timer, timer_id=timer.id) for timer in timers]
    return [Insert(timer, (make_event(timer),), log_of(timer, 2)) for timer in timers]


@pytest.mark.parametrize("number", FEW_AND_MANY)
async def test_timers_without_a_key_of_their_own_are_stored(store, number):
    """With all that is theirs."""
    batch = keyless(number)
    assert await store.insert(batch) == [None] * number
    timers = [each.timer for each in batch]
    assert await store.get([timer.id for timer in timers]) == timers
    assert await store.get_by_key([key_of(timer) for timer in timers]) == timers
    told = await store.events(ids.ALL_SHARDS, None, 1_000)
    assert {event.id for event in told} == {each.events[0].id for each in batch}
    for each in batch[:5]:
        assert await store.attempts(each.timer.id, None, 10) == list(each.attempts)


@pytest.mark.parametrize("number", FEW_AND_MANY)
async def test_timers_without_a_key_of_their_own_again_are_harmless(store, number):
    """As after a lost answer: what is there answers, and what is not is stored."""
    old, new = keyless(2), keyless(number)
    await store.insert(old)
    batch = [new[0], *old, *new[1:]]
    answers = await store.insert(batch)
    assert answers == [None, old[0].timer, old[1].timer, *[None] * (number - 1)]
    timers = [each.timer for each in batch]
    assert await store.get([timer.id for timer in timers]) == timers
    told = await store.events(ids.ALL_SHARDS, None, 1_000)
    assert sorted(event.id for event in told) == sorted(each.events[0].id for each in batch)


@pytest.mark.parametrize("number", FEW_AND_MANY)
async def test_one_without_a_key_of_its_own_twice_in_a_batch_is_stored_once(store, number):
    """The first is stored, and answers for the second."""
    [each], others = keyless(1), keyless(number)
    assert await store.insert([each, each, *others]) == [None, each.timer, *[None] * number]
    timers = [each.timer, *(other.timer for other in others)]
    assert await store.get([timer.id for timer in timers]) == timers


@pytest.mark.parametrize("number", FEW_AND_MANY)
async def test_one_batch_without_keys_at_once_is_stored_once(store, number):
    """Of many that insert the same, each timer is stored by one of them."""
    batch = keyless(number)
    answers = await asyncio.gather(*(store.insert(batch) for _ in range(6)))
    for place, each in enumerate(batch):
        told = [answer[place] for answer in answers]
        assert told.count(None) == 1
        assert [timer for timer in told if timer] == [each.timer] * 5
    assert len(await store.events(ids.ALL_SHARDS, None, 1_000)) == number


async def test_nothing_to_insert_is_fine(store):
    """An empty batch has an empty answer."""
    assert await store.insert([]) == []


async def test_events_are_stored_with_their_timer(store):
    """The events of a stored timer are in the outbox; those of a refused one are not."""
    first, second = make_timer(timer_id="same"), make_timer(timer_id="same")
    told, untold = make_event(first), make_event(second)
    await store.insert([Insert(first, (told,)), Insert(second, (untold,))])
    assert await store.events(ids.ALL_SHARDS, None, 10) == [told]


def log_of(timer, length):
    """An execution log, as another store would hand it over."""
    return tuple(
        make_attempt(timer, occurrence=1 + n // 3, attempt=1 + n % 3, node=f"nöde-{n}")
        for n in range(length)
    )


async def test_attempts_are_there_with_the_timer(store):
    """One that comes from another store has its execution log from the beginning."""
    inserts = [
        Insert(timer, attempts=log_of(timer, length))
        for timer, length in ((make_timer(version=9), length) for length in (0, 1, 7))
    ]
    assert await store.insert(inserts) == [None] * 3
    for each in inserts:
        assert await store.attempts(each.timer.id, None, 100) == list(each.attempts)


async def test_a_timer_with_its_attempts_again_is_harmless(store):
    """As after a lost answer: the timer that is there is the answer, and its log stays."""
    timer = make_timer(version=9)
    inserts = [Insert(timer, attempts=log_of(timer, 5))]
    assert await store.insert(inserts) == [None]
    assert await store.insert(inserts) == [timer]
    assert await store.attempts(timer.id, None, 100) == list(inserts[0].attempts)


async def test_long_logs_are_stored_whole(store):
    """However many attempts a batch brings along."""
    timers = [make_timer(version=2_000) for _ in range(3)]
    inserts = [Insert(timer, attempts=log_of(timer, 700)) for timer in timers]
    assert await store.insert(inserts) == [None] * 3
    for each in inserts:
        assert await store.attempts(each.timer.id, None, 1_000) == list(each.attempts)
