"""One frozen ``Settings``, and the one table that parsing, ``--help`` and the docs come from.

A flag wins over the environment, and the environment over the .env file. Everything is checked
at the start, and all that is wrong is told at once. A value that may be secret is never repeated.
"""

from duetime.config.loading import load_settings
from duetime.config.settings import Settings, without_password

__all__ = ["Settings", "load_settings", "without_password"]
