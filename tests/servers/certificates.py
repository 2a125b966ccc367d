"""The certificates with which servers of the tests prove who they are."""

import shutil
from pathlib import Path

from tests.servers.account import Account

_FOLDER = Path(__file__).parents[1] / "delivery" / "certificates"
AUTHORITY = _FOLDER / "authority.pem"
# Of that authority, for localhost and 127.0.0.1, and valid until 2120.
CERTIFICATE = _FOLDER / "valid.pem"
KEY = _FOLDER / "key.pem"


def lay_down(source: Path, place: Path, account: Account) -> None:
    """Copy one to where a server looks for it, for its account alone."""
    shutil.copyfile(source, place)
    place.chmod(0o600)
    account.own(place)
