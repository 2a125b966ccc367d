"""A predecessor: whether the node of a record was a process of this machine that is gone."""

import os
import socket
import subprocess
import sys

from duetime.cli.predecessor import has_ended
from duetime.nodes import NodeRecord


def about(pid, host=None):
    return NodeRecord(host=socket.gethostname() if host is None else host, pid=pid)


def ended_pid():
    """The number of a process that has just ended."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


def test_a_process_that_is_gone_has_ended():
    """It cannot come back: another one of that number would only be waited for."""
    assert has_ended(about(ended_pid()))


def test_a_process_that_runs_has_not_ended():
    """Neither one of ours, nor one that is somebody else's."""
    assert not has_ended(about(os.getppid()))
    assert not has_ended(about(1)) or os.getpid() == 1


def test_a_record_with_our_own_number_is_of_one_that_ended():
    """The first process of a container has the same number each time it is started."""
    assert has_ended(about(os.getpid()))


def test_nothing_is_known_of_other_machines():
    """Their processes cannot be seen from here."""
    assert not has_ended(about(ended_pid(), host="another"))


def test_a_record_that_names_no_process_says_nothing():
    """An older node, or one whose record cannot be read."""
    assert not has_ended(NodeRecord())
    assert not has_ended(about(0))
    assert not has_ended(about(-1))
