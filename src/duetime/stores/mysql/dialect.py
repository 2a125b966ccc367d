"""What the members of MySQL's family do not agree on, in one place; a session asks at its start."""

from typing import NamedTuple


class Dialect(NamedTuple):
    """How one of them wants it."""

    name: str
    # How many seconds the server gives a statement.
    limiting: str
    # Whether the rows of an upsert are called by a name, or by the function VALUES.
    names_rows: bool = False
    skips_locked: bool = True
    settings: tuple[str, ...] = ()  # what else a session runs with
    # Whether a lock with a name lasts exactly as long as the session that took it. TiDB's is a row
    # of a table, which outlives an hour no better than any transaction there.
    holds_names: bool = True

    def limit(self, seconds: float) -> str:
        """The statement that bounds what any other may take."""
        return self.limiting.format(seconds=int(seconds), millis=int(seconds * 1000))

    def upsert(self, columns: tuple[str, ...]) -> str:
        """What follows the rows of an insert, to overwrite these columns of those there are."""
        if self.names_rows:
            sets = ", ".join(f"{column} = fresh.{column}" for column in columns)
            return f" AS fresh ON DUPLICATE KEY UPDATE {sets}"
        sets = ", ".join(f"{column} = VALUES({column})" for column in columns)
        return f" ON DUPLICATE KEY UPDATE {sets}"

    @property
    def locking_what_is_free(self) -> str:
        """What follows a query that locks its rows, but for those that somebody has."""
        return " FOR UPDATE SKIP LOCKED" if self.skips_locked else " FOR UPDATE"


_READING = "SET SESSION max_execution_time = {millis}"  # it counts for questions only

MARIADB = Dialect(
    "MariaDB",
    "SET SESSION max_statement_time = {seconds}",
    # A long list of ids stays a list, and is not made a table to join with: so rows are locked in
    # the order of their ids, however many there are.
    settings=("SET SESSION in_predicate_conversion_threshold = 0",),
)
MYSQL = Dialect("MySQL", _READING, names_rows=True)
TIDB = Dialect("TiDB", _READING, skips_locked=False, holds_names=False)


def dialect_of(version: str) -> Dialect:
    """Who calls himself so: 10.11.6-MariaDB, 8.0.11-TiDB-v7.5.1, or a mere 8.0.42."""
    for dialect in (MARIADB, TIDB):
        if dialect.name.lower() in version.lower():
            return dialect
    return MYSQL
