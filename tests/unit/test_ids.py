"""Ids and shards. What is fixed here may never change: stored timers depend on it."""

import os
import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duetime import ids
from tests.factories import NOW

MILLIS = st.integers(0, 2**48 - 1)
SHARDS = st.integers(0, ids.SHARDS - 1)

# (tenant, group, timer_id) -> its shard among 1, 16, 256, 1024, 4096 and 1000
VECTORS: dict[tuple[str, str, str], tuple[int, ...]] = {
    ("default", "default", "user-reminder-123"): (0, 6, 134, 134, 2182, 854),
    ("default", "default", ""): (0, 6, 70, 838, 3910, 750),
    ("default", "billing", "order-4711"): (0, 1, 209, 209, 209, 401),
    ("tenant-b", "billing", "order-4711"): (0, 10, 186, 698, 3770, 674),
    ("default", "default", "a/b"): (0, 9, 137, 649, 2697, 705),
    ("default", "default", "käse"): (0, 12, 172, 684, 684, 36),
    ("default", "default", "日本語"): (0, 8, 56, 824, 824, 24),
    ("default", "default", "🕰"): (0, 9, 249, 761, 2809, 417),
    ("default", "default", "x" * 255): (0, 12, 252, 508, 1532, 172),
    ("t", "g", "01977420-dc00-7012-9f7e-3d5f520271b1"): (0, 2, 18, 18, 18, 18),
}


@pytest.mark.parametrize(("key", "shards"), VECTORS.items())
def test_key_shard_never_changes(key: tuple[str, str, str], shards: tuple[int, ...]):
    """A key lies in the same shard for ever."""
    counts = (1, 16, 256, 1024, 4096, 1000)
    assert tuple(ids.key_shard(*key, count) for count in counts) == shards


@given(MILLIS, SHARDS)
def test_a_timer_without_a_key_is_found_by_its_id_as_key(now: int, shard: int):
    """Its key is its id, and both lead to the same shard."""
    id_ = ids.new_id(now, shard % 256)
    assert ids.key_shard("t", "g", id_, 256) == ids.shard_of(id_)


def test_parts_of_a_key_do_not_run_together():
    """Where one part ends and the next begins makes a difference."""
    same_letters = [("a", "b", "c"), ("ab", "", "c"), ("a", "bc", ""), ("", "ab", "c")]
    assert len({ids.key_shard(*key, 4096) for key in same_letters}) == len(same_letters)


def test_keys_spread_evenly():
    """Many keys lie evenly in the shards."""
    found = Counter(ids.key_shard("t", "g", f"timer-{n}", 16) for n in range(16_000))
    assert set(found) == set(range(16))
    assert all(800 < count < 1200 for count in found.values())


def test_ids_of_timers_without_key_spread_evenly():
    """Each shard of the database gets its share, and none that it has not; no two are alike."""
    made = [ids.new_spread_id(NOW, 16) for _ in range(16_000)]
    found = Counter(map(ids.shard_of, made))
    assert set(found) == set(range(16))
    assert all(800 < count < 1200 for count in found.values())
    assert len(set(made)) == len(made)
    assert all(map(ids.is_id, made))
    assert {ids.time_of(each) for each in made} == {NOW}


def test_timers_without_key_spread_evenly():
    """So do timers that have no key."""
    found = Counter(ids.spread_shard(16) for _ in range(16_000))
    assert set(found) == set(range(16))
    assert all(800 < count < 1200 for count in found.values())


@given(MILLIS, SHARDS)
def test_round_trip(now: int, shard: int):
    """An id gives back its time and its shard."""
    id_ = ids.new_id(now, shard)
    assert (ids.time_of(id_), ids.shard_of(id_)) == (now, shard)


@given(MILLIS, SHARDS)
def test_layout_of_rfc_9562(now: int, shard: int):
    """An id is a UUID of version 7 as in RFC 9562: 48 bits of time, version, rand_a, variant."""
    id_ = ids.new_id(now, shard)
    parsed = uuid.UUID(id_)
    assert str(parsed) == id_
    assert parsed.version == 7
    assert parsed.variant == uuid.RFC_4122
    assert parsed.int >> 80 == now
    assert parsed.int >> 64 & 0xFFF == shard
    assert ids.is_id(id_)
    assert ids.is_uuid(id_)


@given(MILLIS, MILLIS, SHARDS, SHARDS)
def test_order(one: int, other: int, one_shard: int, other_shard: int):
    """Ids sort by the time at which they were made."""
    if one < other:
        assert ids.new_id(one, one_shard) < ids.new_id(other, other_shard)


@given(MILLIS, SHARDS)
def test_bytes(now: int, shard: int):
    """An id comes back from its sixteen bytes."""
    id_ = ids.new_id(now, shard)
    assert ids.from_bytes(uuid.UUID(id_).bytes) == id_


@given(st.integers(0, 2**48 - 2), SHARDS)
def test_the_first_of_a_moment(now: int, shard: int):
    """No id of that time is below it, and every one of an earlier time is."""
    assert ids.first_at(now) <= ids.new_id(now, shard) < ids.first_at(now + 1)
    assert ids.is_uuid(ids.first_at(now))


def test_moments_that_no_id_can_say():
    """They lie at the ends."""
    assert ids.first_at(-1) == ids.first_at(0) == "00000000-0000-0000-0000-000000000000"
    assert ids.first_at(2**48) == "ffffffff-ffff-0000-0000-000000000000"


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("0192A3B4-C5D6-7ABC-8DEF-0123456789AB", "0192a3b4-c5d6-7abc-8def-0123456789ab"),
        ("", "00000000-0000-0000-0000-000000000000"),
        ("/", "00000000-0000-0000-0000-000000000000"),
        ("x", "ffffffff-ffff-ffff-ffff-ffffffffffff"),
    ],
)
def test_bounds(text: str, bound: str):
    """A text that is no id lies before all of them, or behind."""
    assert ids.bound(text) == bound


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_process_that_was_split_off_makes_other_ids():
    """Random bytes that were asked for ahead are not used by both."""
    ids.new_id(NOW, 1)
    ours, theirs = os.pipe()
    if (child := os.fork()) == 0:
        os.write(theirs, "".join(ids.new_id(NOW, 1) for _ in range(5)).encode())
        os._exit(0)
    os.waitpid(child, 0)
    told = os.read(ours, 1_000).decode()
    os.close(ours)
    os.close(theirs)
    made = {ids.new_id(NOW, 1) for _ in range(5)}
    assert made.isdisjoint(told[at : at + 36] for at in range(0, len(told), 36))


def test_threads_make_different_ids():
    """However many make them at once."""
    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(lambda _: ids.new_spread_id(NOW, 256), range(20_000)))
    assert len(set(made)) == len(made)


def test_distinct():
    """Ids of the same time and shard differ."""
    assert len({ids.new_id(1, 1) for _ in range(10_000)}) == 10_000


@pytest.mark.parametrize(
    ("text", "is_uuid", "is_id"),
    [
        ("01977420-dc00-7012-9f7e-3d5f520271b1", True, True),
        ("01977420-DC00-7012-9F7E-3D5F520271B1", True, False),
        ("550e8400-e29b-41d4-a716-446655440000", True, False),
        ("01977420-dc00-7012-cf7e-3d5f520271b1", True, False),
        ("01977420dc0070129f7e3d5f520271b1", False, False),
        ("{01977420-dc00-7012-9f7e-3d5f520271b1}", False, False),
        ("01977420-dc00-7012-9f7e-3d5f520271b1\n", False, False),
        ("0197742\u0660-dc00-7012-9f7e-3d5f520271b1", False, False),
        ("01977420-dc00-7012-9f7e-3d5f520271bg", False, False),
        ("", False, False),
    ],
)
def test_which_texts_are_ids(text: str, *, is_uuid: bool, is_id: bool):
    """An id is a UUID in lower case, of version 7; any UUID is at least one."""
    assert (ids.is_uuid(text), ids.is_id(text)) == (is_uuid, is_id)


@given(MILLIS, SHARDS, st.integers(1, 2**19), st.integers(0, 3))
def test_the_id_of_an_event_is_a_uuid_that_carries_its_shard(
    now: int, shard: int, version: int, number: int
):
    """It says when it happened and in which shard, whoever makes it."""
    timer = ids.new_id(now, shard)
    id_ = ids.event_id(timer, now, version, number)
    assert uuid.UUID(id_).version == 7
    assert ids.is_id(id_)
    assert (ids.time_of(id_), ids.shard_of(id_)) == (now, shard)
    assert id_ == ids.event_id(timer, now, version, number)


@given(st.integers(0, 2**48 - 3), SHARDS, st.data())
def test_events_of_one_timer_sort_as_they_happened(now: int, shard: int, data: st.DataObject):
    """By time, then by version, then by their number among those of that version."""
    timer = ids.new_id(now, shard)
    places = data.draw(
        st.lists(st.tuples(st.integers(now, now + 2), st.integers(1, 9), st.integers(0, 3)))
    )
    made = {place: ids.event_id(timer, *place) for place in places}
    assert sorted(made, key=made.__getitem__) == sorted(made)


def test_events_of_two_timers_have_two_ids():
    """Also of timers of one shard, at one moment and of one version."""
    timers = [ids.new_id(1_750_000_000_000, 7) for _ in range(1000)]
    assert len({ids.event_id(timer, 1_750_000_000_000, 1, 0) for timer in timers}) == 1000
