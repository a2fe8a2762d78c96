"""On a CPU: calls that would wait on a GPU, in every thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager

Report = Callable[[str], None]


def watch(would_wait: Callable[[Report], AbstractContextManager[object]], report: Report) -> None:
    """Watch this thread, and all that are started from now on.

    Args:
        would_wait: ``onelaunch.syncs.WouldWait``: a mode, and PyTorch's modes are of one thread.
        report: gets each call.
    """
    would_wait(report).__enter__()
    begin = threading.Thread.start

    def start(thread: threading.Thread) -> None:
        run = thread.run  # of the instance: a subclass may have its own

        def watched() -> None:
            try:
                with would_wait(report):
                    run()
            finally:
                thread.__dict__.pop("run", None)  # it holds the thread, which would hold it

        thread.run = watched  # type: ignore[method-assign]
        begin(thread)

    threading.Thread.start = start  # type: ignore[method-assign, assignment]
