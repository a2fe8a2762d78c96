"""Addresses of servers."""

from __future__ import annotations

from onelaunch.proof.extras import require


def check_url(name: str, url: str) -> None:
    """Raise ValueError, naming the option, unless ``url`` is one that a request can be sent to."""
    require("httpx")
    import httpx

    try:
        parsed = httpx.URL(url)
        good = parsed.scheme in ("http", "https") and bool(parsed.host) and 0 <= (parsed.port or 0) < 65536
        parsed.host.encode("idna")
    except (httpx.InvalidURL, UnicodeError):
        good = False
    if not good:
        raise ValueError(f"{name} is {url!r}: it must be an address, as http://127.0.0.1:8000")
