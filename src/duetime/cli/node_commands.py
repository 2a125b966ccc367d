"""The commands that run a node: serve, dev and migrate."""

import argparse
import asyncio

from msgspec.structs import replace

from duetime.cli.commands import Commands, add_command
from duetime.cli.devkey import keep_key, keep_secrets_key, key_path, secrets_key_path
from duetime.cli.settings_flags import add_flags, settings_from
from duetime.config import Settings
from duetime.config.table import MAKE_A_KEY, TABLE

DEV_DEFAULTS = {"HOST": "127.0.0.1", "OUTBOX": "on"}
_SECRETS = ", ".join(setting.env for setting in TABLE if not setting.flag)
LOOPBACK = ("127.0.0.0/8", "::1/128")


def add_to(commands: Commands) -> None:
    serve = add_command(
        commands,
        "serve",
        _serve,
        "Run a node: the API and the engine",
        f"""\
examples:
  API_KEY=$({MAKE_A_KEY}) duetime serve
  duetime serve --port 9090 --database-url sqlite:////var/lib/duetime/duetime.db
  duetime serve --workers 4

Every flag is also a variable of the environment or of .env. Secrets have no flag, and are
variables only: {_SECRETS}. SIGTERM or Ctrl-C stops the node once its callbacks have ended.
With several workers, SIGHUP replaces them one after the other.""",
    )
    add_flags(serve)
    dev = add_command(
        commands,
        "dev",
        _dev,
        "Run a node for development: makes a key, and shows every callback",
        """\
examples:
  duetime dev
  duetime dev --port 9090

It listens on this machine only, may call this machine, and runs a receiver on PORT + 1
that prints every callback. The key is kept beside the database, and `duetime timer`
finds it there. So is the SECRETS_KEY, unless one is set.""",
    )
    add_flags(dev, DEV_DEFAULTS, without=["WORKERS"])
    migrating = add_command(
        commands,
        "migrate",
        _migrate,
        "Bring the database's schema up to date",
        """\
examples:
  duetime migrate --database-url sqlite:///data/duetime.db

A node does this itself when it starts; running it twice, or at the same time, does no harm.""",
    )
    add_flags(migrating, without=["WORKERS"])


def run_serve(settings: Settings) -> int:
    """Run a node, or as many as there are workers, until a signal ends it."""
    # Imported here: what runs a node is not loaded by the commands that call one.
    if settings.workers > 1:
        from duetime.cli.supervisor import run_supervisor  # noqa: PLC0415

        return run_supervisor(settings)
    from duetime.cli.node import run_node  # noqa: PLC0415

    return run_node(settings, dev=False)


def _serve(args: argparse.Namespace) -> int:
    return run_serve(settings_from(args, required=["API_KEY"]))


def _dev(args: argparse.Namespace) -> int:
    settings = settings_from(args, defaults=DEV_DEFAULTS)
    settings = replace(
        settings,
        api_key=settings.api_key or keep_key(key_path(settings.database_url)),
        secrets_key=settings.secrets_key
        or keep_secrets_key(secrets_key_path(settings.database_url)),
        egress_allow=(*settings.egress_allow, *LOOPBACK),
    )
    from duetime.cli.node import run_node  # noqa: PLC0415

    return run_node(settings, dev=True)


def _migrate(args: argparse.Namespace) -> int:
    from duetime.cli.storage import migrate  # noqa: PLC0415

    asyncio.run(migrate(settings_from(args)))
    print("The schema is up to date.")
    return 0
