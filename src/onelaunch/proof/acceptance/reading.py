"""A reading of a server's counters: drafts, accepted tokens, prefix-cache hits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

_DRAFTS = "vllm:spec_decode_num_drafts_total"
_DRAFT_TOKENS = "vllm:spec_decode_num_draft_tokens_total"
_ACCEPTED = "vllm:spec_decode_num_accepted_tokens_total"
_ACCEPTED_AT = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
_QUERIES = "vllm:prefix_cache_queries_total"
_HITS = "vllm:prefix_cache_hits_total"
_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Reading:
    """Totals over all engines behind one ``/metrics``.

    Attributes:
        drafts: draft blocks that were verified.
        draft_tokens: tokens in them; None if not counted.
        accepted: draft tokens kept.
        accepted_at: likewise by position in the block, from 0; empty if not counted.
        cache_queries, cache_hits: tokens looked for in the prefix cache, and found; None if not counted.
    """

    drafts: float
    draft_tokens: float | None
    accepted: float
    accepted_at: dict[int, float] = field(default_factory=dict)
    cache_queries: float | None = None
    cache_hits: float | None = None


def read_metrics(url: str, model: str | None = None) -> Reading:
    """What ``url`` says now.

    Args:
        model: count only this ``model_name``.

    Raises:
        ValueError: it does not answer with Prometheus text, or without the counters of drafts.
    """
    import httpx

    try:
        response = httpx.get(url, timeout=_TIMEOUT_S, trust_env=False, follow_redirects=True)
        response.raise_for_status()
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise ValueError(f"metrics-url is {url}: it can't be read ({error})") from None
    return parse_metrics(response.text, url, model)


def parse_metrics(text: str, where: str, model: str | None = None) -> Reading:
    """A reading from Prometheus text.

    Raises:
        ValueError: ``text`` is no such text, or lacks the counters; the message has ``where``.
    """
    from prometheus_client.parser import text_string_to_metric_families

    totals: dict[str, float] = {}
    accepted_at: dict[int, float] = {}
    try:
        for name, labels, value in _samples(text_string_to_metric_families(text)):
            if model is not None and labels.get("model_name") != model:
                continue
            if name == _ACCEPTED_AT:
                position = int(labels["position"])
                accepted_at[position] = accepted_at.get(position, 0.0) + value
            else:
                totals[name] = totals.get(name, 0.0) + value
    except (ValueError, KeyError) as error:
        raise ValueError(f"{where} is no Prometheus text: {error}") from None
    for name in (_DRAFTS, _ACCEPTED):
        if name not in totals:
            of = "" if model is None else f" of model {model}"
            raise ValueError(
                f"{where} has no {name}{of}: the server must speculate, and count as vLLM and onelaunch do"
            )
    return Reading(
        totals[_DRAFTS],
        totals.get(_DRAFT_TOKENS),
        totals[_ACCEPTED],
        accepted_at,
        totals.get(_QUERIES),
        totals.get(_HITS),
    )


def _samples(families: Iterable[Any]) -> Iterable[tuple[str, dict[str, str], float]]:
    for family in families:
        for sample in family.samples:
            yield sample.name, sample.labels, sample.value
