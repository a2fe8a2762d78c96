"""What the tests of a comparison share: plans of fake servers, free ports, and what is still running."""

from __future__ import annotations

import contextlib
import socket
import sys
from pathlib import Path

from onelaunch.proof.ab.plan import make_plan

FAKE_SERVER = Path(__file__).with_name("fake_server.py")


def free_ports():
    """Two ports that nothing listens at."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(2)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def values(base="good", change="good", **others):
    """A small comparison, as a parsed TOML file: rounds of one run, no warm-up."""
    return {
        "rounds": 2,
        "runs": 1,
        "warmup": 0,
        "ports": free_ports(),
        "timeouts": {"start": 10, "load": 10, "stop": 2},
        "load": {"model": "m", "prompt_tokens": 4, "max_tokens": 4, "requests_per_stream": 2},
        "arms": {
            name: {"server": [sys.executable, "-S", str(FAKE_SERVER), "{port}", *mode.split()]}
            for name, mode in (("base", base), ("change", change))
        },
        **others,
    }


def plan(base="good", change="good", **others):
    return make_plan(values(base, change, **others))


def running_with(*words):
    """Processes whose command line has all of these words."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                command = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
                if all(str(word) in command for word in words):
                    found.append(int(folder.name))
    return found
