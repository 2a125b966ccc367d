"""Places: where a database is, as its URL says, without who asks for it and with what secrets."""

from hashlib import blake2b
from urllib.parse import parse_qsl, urlencode, urlsplit

from duetime.cli.database_file import file_of
from duetime.errors import ConfigurationError
from duetime.stores.opening import KINDS

# Options of a URL that do not say where the database is, and may be secrets.
_ASIDE = ("password", "secret", "token", "key", "user", "pool_size", "pooler", "application_name")


def place_of(url: str) -> str:
    """The same for all URLs that name the database in the same words."""
    if file := file_of(url):
        return f"sqlite://{file.resolve()}"
    scheme, _, rest = url.partition("://")
    for kind in KINDS:
        if scheme in kind.schemes:
            scheme = kind.schemes[0]
    try:
        parts = urlsplit(f"{scheme}://{rest}")
    except ValueError:
        # Not repeated, not even in part: what is wrong with it may be a piece of a password.
        raise ConfigurationError(
            "a database URL cannot be read: in a user or password, write @ as %40, / as %2F, "
            "[ as %5B and ] as %5D"
        ) from None
    options = sorted(
        (name, value)
        for name, value in parse_qsl(parts.query, keep_blank_values=True)
        if not any(word in name for word in _ASIDE)
    )
    hosts = parts.netloc.rpartition("@")[2].lower()
    return f"{scheme}://{hosts}{parts.path}?{urlencode(options)}"


def digest_of(place: str) -> str:
    """A short name for a place, from which nobody can read it."""
    return blake2b(place.encode(), digest_size=12).hexdigest()
