"""The scripts that run inside the server: each as a whole, with nothing of anybody else between.

They are sent in full with every question, which costs less than to find out whether a server that
was started anew still knows them.
"""

from importlib.resources import files

_FOLDER = files(__name__.rpartition(".")[0]) / "scripts"


def _script(name: str, flags: str) -> str:
    texts = [
        f"#!lua {flags}\n",
        *((_FOLDER / f"{each}.lua").read_text() for each in ("rows", name)),
    ]
    return "".join(texts)


_READS = "flags=no-writes"
# A server that is out of memory refuses other scripts before they begin: then there are no new
# timers, and those that are there still fire, finish and are dropped.
_ALWAYS = "flags=allow-oom"

INSERT = _script("insert", "")
APPLY = _script("apply", _ALWAYS)
READ = _script("read", _READS)
PAGE = _script("page", _READS)
DUE = _script("due", _READS)
REMOVE = _script("remove", _ALWAYS)
COUNT = _script("count", _READS)
PURGE = _script("purge", _ALWAYS)
PUBLISHED = _script("published", _ALWAYS)
PUT_RECORD = _script("put_record", _ALWAYS)
# What makes room is in the audit too, and must not fail for that.
WRITE_LINES = _script("write_lines", _ALWAYS)
DROP_LINES = _script("drop_lines", _ALWAYS)
MIGRATE = _script("migrate", _ALWAYS)
