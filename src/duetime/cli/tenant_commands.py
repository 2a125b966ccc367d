"""The commands about tenants: create, list, get, update, delete."""

import argparse
from typing import Any, cast

from duetime.cli import quota_flags
from duetime.cli.arguments import given
from duetime.cli.asking import add_yes, is_agreed
from duetime.cli.calling import add_calling_command
from duetime.cli.cells import rows
from duetime.cli.commands import Commands, add_noun
from duetime.cli.exits import HELP as EXITS
from duetime.cli.exits import Exit
from duetime.cli.output import Screen, printable
from duetime.cli.show_tenancy import show_tenant, show_tenants
from duetime.client import Client
from duetime.client.tenancy_types import NewTenant, TenantChange
from duetime.clock import SystemClock
from duetime.errors import ConfigurationError


def add_to(commands: Commands) -> None:
    verbs = add_noun(
        commands,
        "tenant",
        "Create, look at and change the tenants of a running service",
        "duetime tenant list",
        EXITS,
    )
    add_calling_command(
        verbs,
        "create",
        _create,
        "Create a tenant",
        """\
  duetime tenant create acme
  duetime tenant create acme --title 'Acme Ltd' --quota pending=100000 --quota batch_size=500

It takes the operator's key, the API_KEY of the service.""",
        _add_name,
        _add_content,
    )
    add_calling_command(verbs, "list", _list, "List the tenants", "  duetime tenant list --json")
    add_calling_command(
        verbs, "get", _get, "Show one tenant", "  duetime tenant get acme", _add_name
    )
    add_calling_command(
        verbs,
        "update",
        _update,
        "Change a tenant",
        """\
  duetime tenant update acme --quota pending=200000 --limit per_second=100
  duetime tenant update acme --quota batch_size=none --unset title

What is not named stays as it is.""",
        _add_name,
        _add_content,
        lambda parser: quota_flags.add_unset(parser, ("title", "quotas", "limits")),
    )
    add_calling_command(
        verbs,
        "delete",
        _delete,
        "Take a tenant away, with its keys and groups",
        """\
  duetime tenant delete acme
  duetime tenant delete acme --yes

On a terminal it asks. Elsewhere it takes --yes. It is refused while timers of the tenant are still
to come, and nobody gets its name again.""",
        _add_name,
        add_yes,
    )


def _add_name(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the tenant's name")


def _add_content(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--title", metavar="TEXT", help="what people call it")
    quota_flags.add_flags(parser)


def _create(args: argparse.Namespace, client: Client, screen: Screen) -> int:
    tenant: dict[str, Any] = given(args, "name", "title") | quota_flags.most_from(args)
    return _show(args, screen, client.create_tenant(**cast("NewTenant", tenant)))


def _list(args: argparse.Namespace, client: Client, screen: Screen) -> int:
    answer = client.tenants()
    if args.json:
        screen.json(answer)
    else:
        show_tenants(screen, rows(answer, "tenants"), SystemClock().now())
    return Exit.OK


def _get(args: argparse.Namespace, client: Client, screen: Screen) -> int:
    return _show(args, screen, client.get_tenant(args.name))


def _update(args: argparse.Namespace, client: Client, screen: Screen) -> int:
    change: dict[str, Any] = given(args, "title") | quota_flags.most_from(args)
    quota_flags.take_back(args, change)
    if not change:
        raise ConfigurationError("name what to change: --title, --quota, --limit or --unset")
    return _show(args, screen, client.update_tenant(args.name, **cast("TenantChange", change)))


def _delete(args: argparse.Namespace, client: Client, screen: Screen) -> int:
    name = printable(args.name)
    if not is_agreed(
        args, f"Delete the tenant {name} with its keys and groups? Nobody gets its name again."
    ):
        return Exit.FAILED
    answer = client.delete_tenant(args.name)
    if args.json:
        screen.json(answer)
    else:
        screen.line(f"Deleted the tenant {name}.")
    return Exit.OK


def _show(args: argparse.Namespace, screen: Screen, tenant: Any) -> int:
    if args.json:
        screen.json(tenant)
    else:
        show_tenant(screen, tenant, SystemClock().now())
    return Exit.OK
