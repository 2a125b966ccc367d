"""A server whose program is one of an install, which its account may not be able to reach."""

from pathlib import Path

from tests.servers.install import Install
from tests.servers.kept import within_reach
from tests.servers.server import Server


class InstalledServer(Server):
    """It runs in the environment of its install, of which it has a copy if need be."""

    program: str  # what is run; it must know `--version`

    def __init__(self, install: Install, *, within: Path | None = None) -> None:
        self._install = install
        super().__init__(within=within)

    def set_up(self) -> None:
        self._install = within_reach(self._install, self.program, self._account, self.folder)

    def environment(self) -> dict[str, str]:
        return self._install.environment
