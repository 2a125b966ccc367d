"""The .env file: what can be written in it."""

import pytest

from duetime.config.dotenv import read_dotenv


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("A=1", "1"),
        ("export A=1", "1"),
        ("  A = 1  ", "1"),
        ("A=", ""),
        ("A=   # nothing", ""),
        ("A=one # comment", "one"),
        ("A=one#two", "one#two"),
        ("A=a b c", "a b c"),
        ("A=x=y", "x=y"),
        ("A=it's", "it's"),
        ('A="one # two"', "one # two"),
        ('A="one" # two', "one"),
        (r'A="a\"b\n\\c"', 'a"b\n\\c'),
        (r"A='$HOME \n'", r"$HOME \n"),
        ("A='' # empty", ""),
    ],
)
def test_a_line_means_what_a_shell_user_expects(line, value, tmp_path):
    """Quotes, comments, export and spaces mean what they mean in a shell."""
    path = tmp_path / ".env"
    path.write_text(f"# a comment\n\n{line}\n")
    assert read_dotenv(path) == ({"A": value}, [])


@pytest.mark.parametrize("line", ["A", "1A=1", 'A="open', "A='open", 'A="x" y', "A-B=1"])
def test_a_line_that_cannot_be_read_is_named(line, tmp_path):
    """By its number, and the other lines still count."""
    path = tmp_path / ".env"
    path.write_text(f"B=1\n{line}\nC=2\n")
    values, problems = read_dotenv(path)
    assert values == {"B": "1", "C": "2"}
    assert len(problems) == 1
    assert f"{path}, line 2: " in problems[0]


def test_a_file_from_windows_is_read(tmp_path):
    """A byte order mark and CRLF are no part of names and values."""
    path = tmp_path / ".env"
    path.write_bytes(b"\xef\xbb\xbfA=1\r\nB=2\r\n")
    assert read_dotenv(path).values == {"A": "1", "B": "2"}


def test_a_file_that_is_no_text_is_a_problem(tmp_path):
    """It is named, and nothing is raised."""
    path = tmp_path / ".env"
    path.write_bytes(b"\xff\xfe\x00")
    assert read_dotenv(path).problems == [f"{path}: cannot be read: it is not UTF-8"]
