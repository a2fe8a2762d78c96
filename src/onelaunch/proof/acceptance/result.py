"""What two readings say, and what two passes say of each other."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from onelaunch.proof.acceptance.reading import Reading
from onelaunch.proof.markdown import markdown_table

# Passes whose shares of cached tokens differ by more did not do the same work.
_SAME_HITS = 0.01


def make_result(before: Reading, after: Reading, seconds: float) -> dict[str, Any]:
    """The pass between two readings, as plain values.

    The mean acceptance length is ``1 + accepted / drafts``: tokens of a step, the target's own one included.

    Raises:
        ValueError: a counter went back (the server was restarted), or no draft was verified in between.
    """
    drafts = _grown("drafts", before.drafts, after.drafts)
    accepted = _grown("accepted tokens", before.accepted, after.accepted)
    if drafts == 0:
        raise ValueError("no draft was verified between the readings: the load did not reach this server")
    draft_tokens = None
    if before.draft_tokens is not None and after.draft_tokens is not None:
        draft_tokens = _grown("draft tokens", before.draft_tokens, after.draft_tokens)
    positions = sorted(after.accepted_at)
    rates = [
        _grown(f"accepted at {i}", before.accepted_at.get(i, 0.0), after.accepted_at[i]) / drafts
        for i in positions
    ]
    queries, hits = _cache(before, after)
    return {
        "acceptance_length": 1 + accepted / drafts,
        "drafts": drafts,
        "draft_tokens": draft_tokens,
        "accepted_tokens": accepted,
        "acceptance_rate": None if not draft_tokens else accepted / draft_tokens,
        "acceptance_rate_per_position": rates,
        "prefix_cache_queries": queries,
        "prefix_cache_hits": hits,
        "seconds": seconds,
    }


def read_result(path: Path) -> dict[str, Any]:
    """A result that was kept.

    Raises:
        ValueError: it is none.
        OSError: it can't be read.
    """
    try:
        result: dict[str, Any] = json.loads(path.read_text())
        if not result["acceptance_length"] >= 1 or "acceptance_rate_per_position" not in result:
            raise ValueError
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"against is {path}: it must be a result of onelaunch acceptance") from None
    return result


def loss_percent(before: Mapping[str, Any], now: Mapping[str, Any]) -> float:
    """By how much the acceptance length fell, in percent of what it was."""
    return 100 * (1 - float(now["acceptance_length"]) / float(before["acceptance_length"]))


def warning(before: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """Why two passes can't be compared as they are, or None.

    Repeated prompts lower the acceptance length on some servers: rows that a prefix cache answers leave no
    hidden states for the draft. So first passes are compared with first passes, or salted ones.
    """
    first, second = _hit_rate(before), _hit_rate(now)
    if first is None or second is None:
        return "a server does not count prefix-cache hits: whether both passes had as many is not known"
    if abs(first - second) <= _SAME_HITS:
        return None
    return (
        f"{100 * first:.1f}% of prompt tokens came from the prefix cache before and {100 * second:.1f}% now: "
        "compare first passes, or salt the requests"
    )


def headline(result: Mapping[str, Any], before: Mapping[str, Any] | None = None) -> str:
    """The result in a sentence."""
    said = f"mean acceptance length {result['acceptance_length']:.3f} over {result['drafts']:,.0f} drafts"
    if before is None:
        return said
    change = -loss_percent(before, result)
    return f"{said}; before {before['acceptance_length']:.3f} ({change:+.2f}%)"


def markdown(result: Mapping[str, Any], before: Mapping[str, Any] | None = None) -> str:
    """Acceptance length, and the rate of each position."""
    lines = [headline(result, before), ""]
    rates = result["acceptance_rate_per_position"]
    header = ["", *(f"position {i + 1}" for i in range(len(rates)))]
    passes = [("accepted", result)] if before is None else [("before", before), ("now", result)]
    rows = [
        [name, *(f"{rate:.3f}" for rate in one["acceptance_rate_per_position"])]
        for name, one in passes
        if len(one["acceptance_rate_per_position"]) == len(rates)
    ]
    if rates:
        lines += [*markdown_table(header, rows, left=1), ""]
    hits = _hit_rate(result)
    if hits is not None:
        lines += [
            f"Prefix cache: {100 * hits:.1f}% of {result['prefix_cache_queries']:,.0f} prompt tokens.",
            "",
        ]
    found = None if before is None else warning(before, result)
    if found is not None:
        lines += [f"**{found[0].upper()}{found[1:]}.**", ""]
    return "\n".join(lines)


def _grown(what: str, before: float, after: float) -> float:
    if after < before:
        raise ValueError(
            f"{what} fell from {before:,.0f} to {after:,.0f} between the readings: the server was restarted"
        )
    return after - before


def _cache(before: Reading, after: Reading) -> tuple[float | None, float | None]:
    if after.cache_queries is None or after.cache_hits is None:
        return None, None
    return (
        _grown("prefix-cache queries", before.cache_queries or 0.0, after.cache_queries),
        _grown("prefix-cache hits", before.cache_hits or 0.0, after.cache_hits),
    )


def _hit_rate(result: Mapping[str, Any]) -> float | None:
    queries, hits = result.get("prefix_cache_queries"), result.get("prefix_cache_hits")
    if queries is None or hits is None:
        return None
    return hits / queries if queries else 0.0
