"""What runs inside a watched program. Until the program imports PyTorch: the standard library only.

Loaded by path, in whatever Python runs the program, so its imports are relative.
"""

from __future__ import annotations

import os
import sys

from .imports import after_import
from .install import install
from .record import Record
from .step import wrap

__all__ = ["watch"]


def watch() -> None:
    """Watch this process, if it is below ``onelaunch sync-check``: from the moment it imports PyTorch."""
    folder = os.environ.get("ONELAUNCH_SYNC_RECORD")
    if not folder or not os.path.isdir(folder):
        return
    record = Record(folder)
    device = os.environ.get("ONELAUNCH_SYNC_RECORD_DEVICE", "auto")
    then = {"torch": lambda torch: install(torch, device, record)}
    module, _, function = os.environ.get("ONELAUNCH_SYNC_RECORD_STEP", "").partition(":")
    if function:
        then[module] = lambda found: wrap(found, function, record)
    for name in list(then):
        if name in sys.modules:  # by a .pth file
            then.pop(name)(sys.modules[name])
    after_import(then)
