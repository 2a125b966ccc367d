"""Durations as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duetime.durations import HELP, LONGEST, format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "millis"),
    [
        ("0", 0),
        ("0s", 0),
        ("0ms", 0),
        ("250ms", 250),
        ("10s", 10_000),
        ("15m", 900_000),
        ("2h", 7_200_000),
        ("3d", 259_200_000),
        ("1w", 604_800_000),
        ("1h30m", 5_400_000),
        ("1d12h", 129_600_000),
        ("30m1h", 5_400_000),
        ("1.5s", 1500),
        ("0.5m", 30_000),
        ("0.0001s", 1),  # rounded up, so that nothing fires early
        ("1.0001ms", 2),
        ("0.4ms0.4ms", 1),  # rounded once, at the end
        ("PT15M", 900_000),
        ("PT0S", 0),
        ("PT1H30M", 5_400_000),
        ("P3D", 259_200_000),
        ("P1W", 604_800_000),
        ("P1DT12H", 129_600_000),
        ("PT0.25S", 250),
        ("36600d", LONGEST),
    ],
)
def test_parse(text: str, millis: int):
    """Short forms and ISO 8601 are read as milliseconds, rounded up."""
    assert parse_duration(text) == millis


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "1",
        "00",
        "s",
        "1 s",
        " 1s",
        "1s ",
        "1s\n",
        "-1s",
        "+1s",
        "1,5s",
        "1.s",
        ".5s",
        "1e3s",
        "1S",
        "10sec",
        "1y",
        "1mo",
        "P",
        "PT",
        "P1DT",
        "P1H",
        "PT1D",
        "P1M",  # a month has no fixed length
        "P1Y",
        "pt15m",
        "P-1D",
        "PT1M1H",
        "infs",
        "nans",
        "\u0661s",  # a digit, but not one of ours
        "1\u00b2s",
        "9999999999999999s",
    ],
)
def test_not_a_duration(text: str):
    """What is no duration is refused, with examples of what is."""
    with pytest.raises(ValueError, match=r"must be a duration such as") as refused:
        parse_duration(text)
    assert str(refused.value) == HELP


@pytest.mark.parametrize("text", ["36600d1ms", "999999999999999w", "P36601D"])
def test_too_long(text: str):
    """A hundred years are the longest."""
    with pytest.raises(ValueError, match=r"^must be at most 100 years$"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("millis", "text"),
    [
        (0, "0s"),
        (1, "1ms"),
        (1000, "1s"),
        (1001, "1s1ms"),
        (90_000, "1m30s"),
        (3_600_000, "1h"),
        (86_400_000, "1d"),
        (604_800_000, "7d"),
    ],
)
def test_format(millis: int, text: str):
    """Milliseconds are written in the largest units that say them exactly."""
    assert format_duration(millis) == text


@given(st.integers(0, LONGEST))
def test_round_trip(millis: int):
    """What is written is read back as the same."""
    assert parse_duration(format_duration(millis)) == millis


@given(st.integers(0, LONGEST))
def test_iso_round_trip(millis: int):
    """The same holds for ISO 8601, in seconds."""
    assert parse_duration(f"PT{millis // 1000}.{millis % 1000:03d}S") == millis


@given(st.text(max_size=30))
def test_any_text(text: str):
    """Any text is either a duration within the limits, or a ValueError."""
    try:
        assert 0 <= parse_duration(text) <= LONGEST
    except ValueError as error:
        assert str(error).startswith("must be ")  # noqa: PT017 - both ways are right
