"""The gate: what every request must pass on its way to its operation, whichever way it came in."""

from duetime.api.auth import Authentication
from duetime.api.envelope import Reply, failure
from duetime.api.operation import Operation
from duetime.api.outage import Outage
from duetime.api.request import Request
from duetime.clock import Clock, sleep
from duetime.errors import Forbidden, StoreError, TooManyRequests
from duetime.tenancy.caller import Caller
from duetime.tenancy.role import Role

NOBODY = Caller("", Role.READ_WITHOUT_PAYLOADS, "")  # who asks where no key is needed


class Gate:
    """Lets requests in, and says why not."""

    def __init__(self, authentication: Authentication, clock: Clock) -> None:
        self.authentication = authentication
        self.clock = clock
        self._outage = Outage(clock)

    async def perform(self, operation: Operation, request: Request) -> Reply:
        """Do what is asked, if the caller may still have it done."""
        # Whoever lets its body wait must not get in with a key that has ended meanwhile.
        self.authentication.check_still(request.caller)
        if operation.changes:
            self.authentication.check_stays(request.caller)
        if operation.makes:
            with self.authentication.making(request.caller):
                return await operation.handler(request)
        return await operation.handler(request)

    async def refuse(self, error: Exception, caller: Caller) -> Reply:
        """The answer to a request that failed; whoever asks far too often has to wait for it."""
        if isinstance(error, TooManyRequests) and error.hold_for:
            await sleep(self.clock, error.hold_for)
        return self.failure(error, caller)

    def failure(self, error: Exception, caller: Caller) -> Reply:
        """The answer to a request that failed; the log hears what its caller is not told."""
        if isinstance(error, StoreError) and not caller.is_operator and error.told != str(error):
            self._outage.seen(error)
        return failure(error, caller)


def check_role(operation: Operation, caller: Caller) -> None:
    """Refuse whoever may not do such a thing."""
    needed = operation.role
    if needed is not None and not caller.may(needed):
        whose = "the operator's key" if needed is Role.OPERATOR else f"the role '{needed}'"
        raise Forbidden(f"this takes {whose}; this key has the role '{caller.role}'")
