"""``/metrics``: the engine's counters under vLLM's names, so that dashboards and tools for vLLM read them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from onelaunch.engine.outputs import EngineStats, RequestOutput

# Seconds. Fine where the inter-token latency of a small model on one GPU is, coarse where a queue waits.
_TOKEN_BUCKETS = (
    0.0005, 0.001, 0.0015, 0.002, 0.003, 0.004, 0.005, 0.0075, 0.01, 0.015, 0.025, 0.05, 0.075,
    0.1, 0.15, 0.25, 0.5, 1, 2.5, 5, 10, 30,
)  # fmt: skip
_REQUEST_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640, 1280)

_COUNTERS: tuple[tuple[str, str, Callable[[EngineStats], float]], ...] = (
    ("vllm:prompt_tokens", "Prompt tokens computed.", lambda stats: stats.prompt_tokens),
    ("vllm:generation_tokens", "Tokens generated.", lambda stats: stats.generation_tokens),
    ("vllm:prefix_cache_queries", "Prompt tokens looked up.", lambda stats: stats.prefix_cache_queries),
    ("vllm:prefix_cache_hits", "Prompt tokens found.", lambda stats: stats.prefix_cache_hits),
    ("vllm:num_preemptions", "Requests that lost their blocks.", lambda stats: stats.preemptions),
)
_SPECULATIVE_COUNTERS: tuple[tuple[str, str, Callable[[EngineStats], float]], ...] = (
    ("vllm:spec_decode_num_drafts", "Draft blocks.", lambda stats: stats.num_drafts),
    ("vllm:spec_decode_num_draft_tokens", "Draft tokens verified.", lambda stats: stats.num_draft_tokens),
    (
        "vllm:spec_decode_num_accepted_tokens",
        "Draft tokens accepted.",
        lambda stats: stats.num_accepted_tokens,
    ),
)
_GAUGES: tuple[tuple[str, str, Callable[[EngineStats], float]], ...] = (
    ("vllm:num_requests_running", "Requests that run.", lambda stats: stats.running),
    ("vllm:num_requests_waiting", "Requests that wait.", lambda stats: stats.waiting),
    (
        "vllm:kv_cache_usage_perc",
        "Share of blocks in use; 1 is all.",
        lambda stats: stats.kv_cache_usage,
    ),
    (
        "onelaunch:metadata_launches_per_step",
        "Host launches that built the last decode step's attention metadata.",
        lambda stats: stats.launches_per_step,
    ),
)


@dataclass(slots=True)
class _Timing:
    arrival: float
    last_token: float | None = None


class Metrics:
    """Latencies of requests, noted where the engine's outputs appear, and the engine's own counters.

    Args:
        stats: the engine's; read when scraped.
        num_draft_tokens: k; 0 leaves the speculative counters out.
    """

    def __init__(self, stats: EngineStats, model_name: str, num_draft_tokens: int) -> None:
        self.registry = CollectorRegistry()
        self._timings: dict[str, _Timing] = {}

        def histogram(name: str, about: str, buckets: tuple[float, ...]) -> Histogram:
            family = Histogram(name, about, ["model_name"], buckets=buckets, registry=self.registry)
            return family.labels(model_name)

        self._first_token = histogram(
            "vllm:time_to_first_token_seconds", "From a request's arrival to its first token.", _TOKEN_BUCKETS
        )
        self._inter_token = histogram(
            "vllm:inter_token_latency_seconds",
            "Between two outputs of a request; with drafts one output may be several tokens.",
            _TOKEN_BUCKETS,
        )
        self._request = histogram(
            "vllm:e2e_request_latency_seconds", "From a request's arrival to its end.", _REQUEST_BUCKETS
        )
        ended = Counter(
            "vllm:request_success",
            "Requests that ended.",
            ["model_name", "finished_reason"],
            registry=self.registry,
        )
        self._ended = {
            reason: ended.labels(model_name, reason) for reason in ("stop", "length", "abort", "error")
        }
        self.registry.register(_StatsCollector(stats, model_name, num_draft_tokens))

    def started(self, request_id: str, arrival: float) -> None:
        """A request is in the engine. ``arrival`` is ``time.monotonic()`` when its call came in."""
        self._timings[request_id] = _Timing(arrival)

    def took(self, outputs: Iterable[RequestOutput], now: float) -> None:
        """A step's outputs, at ``time.monotonic()``."""
        for output in outputs:
            timing = self._timings.get(output.request_id)
            if timing is None:
                continue
            if timing.last_token is None:
                self._first_token.observe(now - timing.arrival)
            else:
                self._inter_token.observe(now - timing.last_token)
            timing.last_token = now
            if output.finish_reason is not None:
                self.ended(output.request_id, output.finish_reason, now)

    def ended(self, request_id: str, reason: str, now: float) -> None:
        """A request is out of the engine; ignored when it was already."""
        timing = self._timings.pop(request_id, None)
        if timing is not None:
            self._request.observe(now - timing.arrival)
            self._ended[reason].inc()

    def all_ended(self, reason: str, now: float) -> None:
        """No request is in the engine any more."""
        for request_id in list(self._timings):
            self.ended(request_id, reason, now)

    def text(self) -> bytes:
        """The exposition format."""
        return generate_latest(self.registry)


class _StatsCollector(Collector):
    def __init__(self, stats: EngineStats, model_name: str, num_draft_tokens: int) -> None:
        self._stats = stats
        self._labels = [model_name]
        self._num_draft_tokens = num_draft_tokens

    def collect(self) -> Iterator[Metric]:
        for name, about, value in _COUNTERS + (_SPECULATIVE_COUNTERS if self._num_draft_tokens else ()):
            counter = CounterMetricFamily(name, about, labels=["model_name"])
            counter.add_metric(self._labels, value(self._stats))
            yield counter
        if self._num_draft_tokens:
            counter = CounterMetricFamily(
                "vllm:spec_decode_num_accepted_tokens_per_pos",
                "Draft tokens accepted, by their place in the block.",
                labels=["model_name", "position"],
            )
            for position, accepted in enumerate(self._stats.accepted_per_pos):
                counter.add_metric([*self._labels, str(position)], accepted)
            yield counter
        for name, about, value in _GAUGES:
            gauge = GaugeMetricFamily(name, about, labels=["model_name"])
            gauge.add_metric(self._labels, value(self._stats))
            yield gauge
