"""The picture of a report, and the histogram in it."""

from itertools import pairwise
from xml.etree import ElementTree as ET

import msgspec

from duetime.benching.histogram import BOUNDS, Bucket, histogram, rates
from duetime.benching.limit import Step
from duetime.benching.picture import picture
from duetime.benching.report import Burst, Creates, Report, Steady
from duetime.benching.verdict import Verdict

SVG = "{http://www.w3.org/2000/svg}"


def step(rate, p99):
    return Step(rate=rate, seconds=2, took=2.0, p50=2.0, p99=p99)


REPORT = Report(
    version="1.2.3",
    machine={"processor": "2 x Chip <4> & more"},
    store="SQLite",
    workers=1,
    creates=Creates(timers=10, per_second=2_000.0),
    batches=Creates(timers=10, per_second=9_000.0),
    burst=Burst(timers=7, per_second=5_000.0, first_ms=8.0, last_ms=140.0, arrived=[1, 0, 6]),
    steady=Steady(
        rate=200,
        timers=9,
        p50=2.0,
        p90=3.0,
        p99=9.0,
        max=9.5,
        lateness=histogram([0.01, 2.1, 2.2, 2.3, 5.5, 9.5]),
    ),
    limit=Verdict(rate=800, cause="node", limited_by="the node: <all> of it"),
    steps=[step(200, 5.0), step(800, 20.0), step(1600, 700.0)],
    timers=16,
)


def tips(report, kind):
    """What the bars, or dots, of a picture say."""
    root = ET.fromstring(picture(report))
    return [each.find(f"{SVG}title").text for each in root.iter() if each.get("class") == kind]


def test_every_bucket_has_its_bar():
    """Those of the histogram first, then those of the burst; each says what it stands for."""
    shown = tips(REPORT, "bar")
    buckets = REPORT.steady.lateness
    assert shown[: len(buckets)] == [f"{each.count} timers: {each.label}" for each in buckets]
    assert shown[len(buckets) :] == [
        "1 callbacks from 0 to 50 ms",
        "0 callbacks from 50 to 100 ms",
        "6 callbacks from 100 to 150 ms",
    ]


def test_bars_lie_side_by_side_within_the_picture():
    """From left to right, and none is outside."""
    root = ET.fromstring(picture(REPORT))
    bars = [each for each in root.iter(f"{SVG}rect") if each.get("class") == "bar"]
    places = [float(bar.get("x")) for bar in bars[: len(REPORT.steady.lateness)]]
    assert places == sorted(places)
    assert len(set(places)) == len(places)
    for bar in bars:
        assert float(bar.get("x")) >= 0
        assert float(bar.get("x")) + float(bar.get("width")) <= float(root.get("width"))
        assert float(bar.get("y")) + float(bar.get("height")) <= float(root.get("height"))


def test_every_step_of_the_search_is_shown():
    """What held otherwise than what did not."""
    assert tips(REPORT, "held") == ["200 a second: p99 5.0 ms", "800 a second: p99 20.0 ms"]
    assert tips(REPORT, "failed") == ["1,600 a second: lateness p99 was 700 ms"]


def test_words_are_escaped_and_units_are_told():
    """A processor may be called anything."""
    root = ET.fromstring(picture(REPORT))
    texts = [each.text for each in root.iter(f"{SVG}text")]
    assert "processor 2 x Chip <4> & more" in texts
    assert "limited by the node: <all> of it" in texts
    assert "milliseconds after the due instant (logarithmic)" in texts
    assert "800 timers a second" in texts


def test_a_picture_needs_nothing_else():
    """It loads nothing: the only address in it is the name of what it is."""
    assert picture(REPORT).count("http") == 1
    assert "href" not in picture(REPORT)


def test_a_report_of_almost_nothing_has_a_picture():
    """One timer, one step, and nothing in the histogram."""
    little = msgspec.structs.replace(
        REPORT,
        burst=msgspec.structs.replace(REPORT.burst, arrived=[]),
        steady=msgspec.structs.replace(REPORT.steady, lateness=[]),
        steps=[step(1, 0.0)],
        limit=Verdict(rate=0, cause="unknown", limited_by="x" * 500),
    )
    ET.fromstring(picture(little))
    ET.fromstring(picture(msgspec.structs.replace(little, steps=[])))


def test_buckets_hold_everything_once():
    """Without a gap, from the first that has something in it to the last."""
    found = histogram([0.0, 0.1, 99.9, 100.0, 20_000.0])
    assert sum(bucket.count for bucket in found) == 5
    assert [bucket.since for bucket in found] == [0.0, *BOUNDS]
    assert all(one.until == other.since for one, other in pairwise(found))
    assert found[0] == Bucket(0.0, 0.1, 1)
    assert found[-1] == Bucket(10_000.0, None, 1)
    assert histogram([]) == []
    assert histogram([2.5]) == [Bucket(2.0, 3.0, 1)]


def test_a_bucket_is_told_in_words():
    """With its ends."""
    labels = [
        bucket.label for bucket in (Bucket(0, 0.1, 1), Bucket(1, 1.5, 1), Bucket(1e4, None, 1))
    ]
    assert labels == ["less than 0.1 ms", "1 to 1.5 ms", "10,000 ms or more"]


def test_arrivals_are_counted_by_stretches_of_time():
    """Those in which nothing came as well."""
    assert rates([3.0, 49.9, 50.0, 151.0], 50) == [2, 1, 0, 1]
    assert rates([], 50) == []
