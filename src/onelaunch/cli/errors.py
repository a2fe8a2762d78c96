"""How a command says that what it checked does not hold."""


class CheckFailed(Exception):
    """A check ran and failed: its message is one line, and the exit status is 1."""
