"""The processes of this machine, as the kernel shows them."""

from pathlib import Path


def descendants(pid: int) -> dict[int, str]:
    """The processes below one, parents first, with their names."""
    children: dict[int, dict[int, str]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = stat.read_text().partition("(")[2].rpartition(")")
        except OSError:
            continue  # it has ended meanwhile
        children.setdefault(int(rest.split()[1]), {})[int(stat.parent.name)] = name
    found: dict[int, str] = {}
    left = [pid]
    for parent in left:  # grows while it is read
        found |= children.get(parent, {})
        left += children.get(parent, {})
    return found
