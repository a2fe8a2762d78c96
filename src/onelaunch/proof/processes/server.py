"""An arm's server: started, healthy, and stopped."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from onelaunch.proof.processes.failure import ProcessFailed, naming
from onelaunch.proof.processes.process import Process

_FIRST_POLL_S, _LAST_POLL_S = 0.05, 1.0
_ANSWER_S = 5.0


class Server(Process):
    """A server process of one arm in one round.

    Args:
        what: as errors name it, "round 2, change".
        port: where it must listen.
        health: path that answers 200 once it is ready.

    Raises:
        ProcessFailed: something listens at the port already. It would be measured in this server's place.
    """

    def __init__(
        self,
        what: str,
        command: Sequence[str],
        log: Path,
        env: Mapping[str, str],
        *,
        port: int,
        health: str,
        stop_timeout: float,
    ) -> None:
        if _listens(port):
            raise ProcessFailed(
                f"{what}: something listens at port {port} already: stop it, or give other ports"
            )
        self.what = what
        self.base_url = f"http://127.0.0.1:{port}"
        self._health_url = self.base_url + health
        super().__init__(command, log, env, stop_timeout)

    def wait_until_healthy(self, seconds: float) -> None:
        """Ask for the health until it is 200.

        Raises:
            ProcessFailed: the server died, or ``seconds`` are over.
        """
        import httpx

        deadline = time.monotonic() + seconds
        poll = _FIRST_POLL_S
        # It is plain HTTP: no certificates need be loaded.
        with httpx.Client(timeout=_ANSWER_S, trust_env=False, verify=False) as client:
            while True:
                self.check_alive("before it was healthy")
                try:
                    status = client.get(self._health_url).status_code
                    if status == 200:
                        return
                    said = f"status {status}"
                except httpx.HTTPError as error:
                    said = type(error).__name__
                if time.monotonic() > deadline:
                    raise naming(
                        self.log,
                        f"{self.what}: the server was not healthy after {seconds:g} s "
                        f"({self._health_url}: {said})",
                    )
                time.sleep(poll)
                poll = min(2 * poll, _LAST_POLL_S)

    def check_alive(self, when: str) -> None:
        """Raise ProcessFailed if the server has died."""
        status = self.status()
        if status is not None:
            raise naming(self.log, f"{self.what}: the server died with status {status} {when}")


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0
