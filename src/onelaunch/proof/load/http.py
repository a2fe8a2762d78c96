"""How an OpenAI-compatible server is reached."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx

_CONNECT_TIMEOUT_S = 10.0


def open_client(base_url: str, timeout: float, parallel: int = 1) -> httpx.AsyncClient:
    """A client for so many requests at once. The key is that of ``OPENAI_API_KEY``, if there is one.

    Args:
        base_url: of the server, without ``/v1``.
        timeout: seconds that the server may be silent.
    """
    import httpx

    key = os.environ.get("OPENAI_API_KEY")
    return httpx.AsyncClient(
        base_url=base_url,
        timeout=httpx.Timeout(timeout, connect=_CONNECT_TIMEOUT_S),
        limits=httpx.Limits(max_connections=parallel),
        headers={"Authorization": f"Bearer {key}"} if key else None,
        trust_env=False,  # a proxy's delays would be measured, too
    )
