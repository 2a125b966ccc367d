"""The commands about the audit: list, export."""

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TypeVar, cast

from duetime.cli.arguments import given, key_id
from duetime.cli.calling import add_calling_command
from duetime.cli.cells import rows
from duetime.cli.commands import Commands, add_noun
from duetime.cli.exits import HELP as EXITS
from duetime.cli.exits import Exit
from duetime.cli.output import Screen
from duetime.cli.show_actions import show_audit
from duetime.client import Client
from duetime.client.audit_types import AuditExportFilters, AuditFilters, AuditPage
from duetime.errors import ConfigurationError

FiltersT = TypeVar("FiltersT", AuditFilters, AuditExportFilters)


def add_to(commands: Commands) -> None:
    verbs = add_noun(
        commands,
        "audit",
        "Show who did what, when, and from where",
        "duetime audit list --after 2030-01-01T00:00:00Z",
        EXITS,
    )
    add_calling_command(
        verbs,
        "list",
        _list,
        "List the lines of the audit",
        """\
  duetime audit list --kind key
  duetime audit list --actor billing --action timer.cancel --order asc --all""",
        _add_filters,
        _add_paging,
    )
    add_calling_command(
        verbs,
        "export",
        _export,
        "Write the lines of the audit as JSON, one a line",
        """\
  duetime audit export --after 2030-01-01T00:00:00Z --before 2030-02-01T00:00:00Z > january.jsonl
  duetime audit export --output audit.jsonl && echo 'that is all of it'

Lines are written as they arrive, so there may be any number of them. If the answer breaks off, what
came is written and the command ends with 1.""",
        _add_filters,
        _add_output,
    )


def _add_filters(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("which, and in which order")
    group.add_argument("--actor", metavar="NAME", help="the name of the key that did it")
    group.add_argument("--key", type=key_id, metavar="ID", help="the id of that key")
    group.add_argument("--action", help="what was done, such as key.create")
    group.add_argument("--kind", help="to what kind of thing, such as timer, group or key")
    group.add_argument("--target", help="to which of them")
    group.add_argument("--group")
    group.add_argument("--after", metavar="TIME")
    group.add_argument("--before", metavar="TIME")
    group.add_argument("--order", choices=("asc", "desc"))


def _add_paging(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--limit", type=int, metavar="N", help="per page")
    parser.add_argument("--cursor", help="go on behind a page (its next_cursor)")
    parser.add_argument("--all", action="store_true", help="all of them, page by page")


def _add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--output", metavar="FILE", help="where to (default: standard output)")


def _list(args: argparse.Namespace, client: Client, screen: Screen) -> int:
    filters = _filters(args, AuditFilters)
    page: AuditPage
    page = {"lines": list(client.audit(**filters))} if args.all else client.audit_page(**filters)
    if args.json:
        screen.json(page)
        return Exit.OK
    show_audit(screen, rows(page, "lines"))
    if page.get("next_cursor"):
        screen.line(screen.colour("dim", "there are more; --all shows all of them"))
    return Exit.OK


def _export(args: argparse.Namespace, client: Client, _: Screen) -> int:
    lines = client.export_audit(**_filters(args, AuditExportFilters))
    line = next(lines, None)  # a refusal must not cost a file that is there already
    written = 0
    is_whole = False
    try:
        with _opened(args.output) as file:
            while line is not None:
                file.write(line + b"\n")
                written += 1
                line = next(lines, None)
        is_whole = True
    finally:
        if args.output and (written or is_whole):
            end = "." if is_whole else ", and that is not all of them: export again."
            print(f"Wrote {written:,} lines to {args.output}{end}", file=sys.stderr)
    return Exit.OK


def _filters(args: argparse.Namespace, type_: type[FiltersT]) -> FiltersT:
    return cast("FiltersT", given(args, *type_.__annotations__))


@contextmanager
def _opened(output: str | None) -> Iterator[BinaryIO]:
    if output is None:
        sys.stdout.flush()
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    try:
        with Path(output).open("wb") as file:
            yield file
    except OSError as error:
        raise ConfigurationError(f"--output: cannot write {output}: {error.strerror}") from None
