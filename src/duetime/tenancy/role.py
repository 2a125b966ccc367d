"""Roles: what the holder of a key may do."""

from enum import StrEnum


class Role(StrEnum):
    """What a key is good for; each may do all that those before it may."""

    READ_WITHOUT_PAYLOADS = "read_without_payloads"
    READ = "read"
    WRITE = "write"
    ADMIN = "admin"
    OPERATOR = "operator"  # of the whole installation: the API_KEY of its environment

    def includes(self, other: "Role") -> bool:
        """Tell whether this role may do all that the other one may."""
        return _RANKS[self] >= _RANKS[other]


_RANKS = {role: rank for rank, role in enumerate(Role)}
