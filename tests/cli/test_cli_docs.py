"""docs/cli.md knows every command, every flag of its own, and every exit code."""

import argparse
from pathlib import Path

from duetime.cli import build_parser
from duetime.cli.exits import Exit
from duetime.config.table import TABLE

DOCS = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
SETTINGS = {setting.flag for setting in TABLE}


def parsers(parser, name="duetime"):
    yield name, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for verb, inner in action.choices.items():
                yield from parsers(inner, f"{name} {verb}")


def test_every_command_is_documented():
    """docs/cli.md names every command."""
    for name, _ in parsers(build_parser()):
        assert name.removeprefix("duetime timer ") in DOCS


def test_every_flag_is_documented():
    """docs/cli.md names every flag that is not a setting; settings are in docs/configuration.md."""
    for name, parser in parsers(build_parser()):
        for action in parser._actions:
            for flag in set(action.option_strings) - SETTINGS - {"-h", "--help", "--version"}:
                assert flag in DOCS, f"{name} {flag}"


def test_every_exit_code_is_documented():
    """docs/cli.md says of every exit code what it means."""
    for code in Exit:
        assert f"| {code.value} | " in DOCS
