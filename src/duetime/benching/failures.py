"""How a benchmark can fail: it could not be run, or Duetime has not kept its word."""


class BenchFailed(RuntimeError):
    """A process of the benchmark ended, or answered what nobody had expected."""


class BrokenPromise(Exception):
    """A timer was early, lost or duplicated."""
