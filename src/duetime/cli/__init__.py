"""The command line: the composition root."""


def main() -> int:
    """Run the command line; the answer is the exit code."""
    raise NotImplementedError
