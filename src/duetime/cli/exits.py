"""The exit codes: what a script can tell from how a command ended."""

from enum import IntEnum

from duetime.client import ClientError, ServiceError


class Exit(IntEnum):
    """How a command ended."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    UNAUTHORIZED = 4
    CONFLICT = 5
    INTERRUPTED = 130
    BROKEN_PIPE = 141


HELP = """\
exit codes:
  0  done
  1  the service or the network failed, or a quota is used up; watch: the timer failed or was
     canceled; action: it failed, was canceled, or left some timers behind; pause and resume of
     groups and targets: not every node has confirmed it
  2  wrong usage, or the service found the request invalid
  3  there is no such timer, tenant, key, signing secret, group, credential, target or action
  4  the API key is missing, wrong, or not allowed to do this
  5  conflict: the key or the name is taken, the version is not the newest, or something is
     still in use
  130  interrupted"""

_BY_STATUS = {
    400: Exit.USAGE,
    401: Exit.UNAUTHORIZED,
    403: Exit.UNAUTHORIZED,
    404: Exit.NOT_FOUND,
    409: Exit.CONFLICT,
    412: Exit.CONFLICT,
    413: Exit.USAGE,
    422: Exit.USAGE,
}


def exit_for(error: ClientError) -> Exit:
    """The exit code of a call that failed."""
    if isinstance(error, ServiceError):
        return _BY_STATUS.get(error.status, Exit.FAILED)
    return Exit.FAILED
