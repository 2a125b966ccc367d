"""The flags of the commands that run a node, made from the table of settings."""

import argparse
import os
from collections.abc import Collection, Mapping

from duetime.config import Settings, load_settings
from duetime.config.dotenv import DOTENV
from duetime.config.table import TABLE


def add_flags(
    parser: argparse.ArgumentParser,
    defaults: Mapping[str, str] | None = None,
    *,
    without: Collection[str] = (),
) -> None:
    """A flag for each setting that has one; which of them are wrong, ``load_settings`` tells.

    ``without`` names those that mean nothing to this command, by their variables.
    """
    group = parser.add_argument_group("settings")
    for setting in TABLE:
        if setting.flag and setting.env not in without:
            default = (defaults or {}).get(setting.env, setting.default) or "none"
            text = f"{setting.help} ({setting.reads.values}; default: {default}; or {setting.env})"
            group.add_argument(
                setting.flag, dest=setting.field, metavar="VALUE", help=text.replace("%", "%%")
            )


def settings_from(
    args: argparse.Namespace,
    *,
    defaults: Mapping[str, str] | None = None,
    required: Collection[str] = (),
) -> Settings:
    """The settings by these flags, the environment, and .env."""
    return load_settings(vars(args), os.environ, DOTENV, defaults=defaults, required=required)
