"""What a load run measured."""

from __future__ import annotations

import dataclasses
import statistics
from dataclasses import dataclass
from typing import Any

from onelaunch.proof.load.settings import LoadSettings
from onelaunch.proof.load.stream import RequestTiming


@dataclass(frozen=True, slots=True)
class LoadResult:
    """A finished run: every request was answered.

    Attributes:
        requests: in the order in which they were sent.
        seconds: from the first request sent to the last answer's end.
    """

    settings: LoadSettings
    requests: tuple[RequestTiming, ...]
    seconds: float

    @property
    def inter_token_latencies_us(self) -> list[float]:
        """Of each request, in microseconds."""
        return [request.inter_token_latency * 1e6 for request in self.requests]

    @property
    def times_to_first_token_us(self) -> list[float]:
        """Of each request, in microseconds."""
        return [request.time_to_first_token * 1e6 for request in self.requests]

    @property
    def output_tokens(self) -> int:
        """Of all requests."""
        return sum(request.output_tokens for request in self.requests)

    def as_json(self) -> dict[str, Any]:
        """Everything, ``values`` being one number a request."""
        settings = dataclasses.asdict(self.settings)
        return {
            **settings,
            "seconds": self.seconds,
            "output_tokens": self.output_tokens,
            "output_tokens_per_second": self.output_tokens / self.seconds,
            "tokens_per_chunk": self.output_tokens / sum(request.chunks for request in self.requests),
            "inter_token_latency_us": _summary(self.inter_token_latencies_us),
            "time_to_first_token_us": _summary(self.times_to_first_token_us),
        }


def _summary(values: list[float]) -> dict[str, Any]:
    percentiles = statistics.quantiles(values, n=100, method="inclusive") if len(values) > 1 else values * 99
    return {
        "p50": statistics.median(values),
        "mean": statistics.fmean(values),
        "p90": percentiles[89],
        "p99": percentiles[98],
        "values": values,
    }
