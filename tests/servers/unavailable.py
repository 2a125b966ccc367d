"""The error of a server that cannot be had on this machine; its message is the reason."""


class Unavailable(Exception):
    """Tests that need this server are skipped with this reason; in CI they fail with it."""
