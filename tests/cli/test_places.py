"""Where a database is, as its URL says."""

import pytest

from duetime.cli.places import digest_of, place_of
from duetime.errors import ConfigurationError

SAME = [
    ("sqlite:///data/a.db", "sqlite:///./data/../data/a.db"),
    ("postgres://h/d", "postgresql://h/d"),
    ("postgresql://h/d", "postgresql://ann:s3cret@H/d"),
    ("postgresql://h/d?password=s3cret&sslpassword=s3cret", "postgresql://h/d?pool_size=4"),
    ("postgresql://h/d?schema=a&host=x", "postgresql://h/d?host=x&schema=a"),
]
OTHER = [
    ("sqlite:///a.db", "sqlite:///b.db"),
    ("postgresql://h/d", "postgresql://h/e"),
    ("postgresql://h/d", "postgresql://h:5433/d"),
    ("postgresql://h/d?schema=a", "postgresql://h/d?schema=b"),
]


@pytest.mark.parametrize(("one", "two"), SAME)
def test_the_same_place(one, two):
    """Whoever asks for it, in whatever order the words are."""
    assert place_of(one) == place_of(two)
    assert "s3cret" not in place_of(one) + place_of(two)


@pytest.mark.parametrize(("one", "two"), OTHER)
def test_another_place(one, two):
    """URLs that differ in a word that counts are different places."""
    assert place_of(one) != place_of(two)
    assert digest_of(place_of(one)) != digest_of(place_of(two))


def test_a_relative_path_is_a_place_in_this_folder(tmp_path, monkeypatch):
    """So a copy can be resumed from another one, by the whole path."""
    assert place_of("sqlite:///a.db") == place_of(f"sqlite:///{tmp_path}/a.db")
    assert place_of("sqlite:///a.db") == place_of(f"sqlite:////{tmp_path}/a.db")


@pytest.mark.parametrize("url", ["mysql://u:pa[s3cret]x@h/d", "mysql://u:s3cret\u2100@h/d"])
def test_a_url_that_cannot_be_read_is_not_repeated(url):
    """Not even the part that is wrong: it may be of a password."""
    with pytest.raises(ConfigurationError, match="cannot be read") as refused:
        place_of(url)
    assert "s3cret" not in str(refused.value)
