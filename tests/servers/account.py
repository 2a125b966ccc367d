"""An account is the user that servers run as: ourselves, or `nobody` when we are root."""

import os
import pwd
from pathlib import Path
from typing import Any, NamedTuple


class Account(NamedTuple):
    """A user of this machine; without a number, whoever we are already."""

    uid: int | None
    gid: int | None

    @property
    def popen(self) -> dict[str, Any]:
        """What `subprocess` must be told, so that a child runs as this user."""
        if self.uid is None:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def own(self, *paths: Path) -> None:
        """Make the paths this user's."""
        if self.uid is not None and self.gid is not None:
            for path in paths:
                os.chown(path, self.uid, self.gid, follow_symlinks=False)


def server_account() -> Account:
    """Whom a server runs as: PostgreSQL and PgBouncer both refuse to run as root."""
    if os.geteuid() != 0:
        return Account(None, None)
    nobody = pwd.getpwnam("nobody")
    return Account(nobody.pw_uid, nobody.pw_gid)
