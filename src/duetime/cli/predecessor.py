"""A predecessor is a node that ran on this machine before, and ended without a chance to leave.

Its record is still there when the next one starts, and looks like that of a node which will show
itself within a heartbeat. That there is no such process any more says it at once. Where two
machines go by one name, or containers on one machine do, this may be wrong: then two nodes look
after the same shards until the next heartbeat, which wastes work and does no harm.
"""

import os
import socket
import sys

from duetime.nodes import NodeRecord


def has_ended(about: NodeRecord) -> bool:
    """Tell whether a node was a process of this machine that is gone."""
    if about.host != socket.gethostname() or about.pid <= 0 or sys.platform == "win32":
        return False  # there, to ask for a process may end it
    if about.pid == os.getpid():
        return True  # a container that was started again: its first process has the same number
    try:
        os.kill(about.pid, 0)
    except ProcessLookupError:
        return True
    except OSError:  # somebody else's
        return False
    return False
