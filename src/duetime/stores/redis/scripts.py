"""The scripts that run inside the server: each as a whole, with nothing of anybody else between.

They are sent in full with every question, which costs less than to find out whether a server that
was started anew still knows them.
"""

from importlib.resources import files

_FOLDER = files(__name__.rpartition(".")[0]) / "scripts"


def _script(*names: str, flags: str = "") -> str:
    # With this line, a server that is out of memory refuses a script that writes before it begins.
    texts = [f"#!lua {flags}".strip(), *((_FOLDER / f"{name}.lua").read_text() for name in names)]
    return "\n".join(texts)


INSERT = _script("rows", "insert")
APPLY = _script("rows", "apply")
PURGE = _script("rows", "purge")
READ = _script("rows", "read", flags="flags=no-writes")
PAGE = _script("rows", "page", flags="flags=no-writes")
DUE = _script("rows", "due", flags="flags=no-writes")
PUBLISHED = _script("rows", "published")
PUT_RECORD = _script("rows", "put_record")
