"""Asking whoever sits there, before more is gone than the one thing that a command names."""

import argparse
import sys

from duetime.errors import ConfigurationError


def add_yes(parser: argparse.ArgumentParser) -> None:
    """The flag of those who need not be asked."""
    parser.add_argument("--yes", action="store_true", help="do it without asking")


def check_somebody(instead: str = "") -> None:
    """Refuse to go on where nobody can be asked; ``instead`` is what else one may say there."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise ConfigurationError(f"nobody can be asked here: say --yes to do it{instead}")


def is_wanted(question: str) -> bool:
    """Ask whoever sits there. Only a clear yes is one."""
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() in {"y", "yes"}:
        return True
    print("Nothing was done.", file=sys.stderr)
    return False


def is_agreed(args: argparse.Namespace, question: str) -> bool:
    """Tell whether it shall be done: by --yes, or by whoever is asked."""
    if args.yes:
        return True
    check_somebody()
    return is_wanted(question)
