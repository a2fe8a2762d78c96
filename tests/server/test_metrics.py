"""Metrics under vLLM's names, before and after requests."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from onelaunch.engine.outputs import EngineStats, FinishReason, RequestOutput
from onelaunch.server.metrics import Metrics
from server.fake_core import FakeCore


def test_counters_move_with_requests(serve):
    served = serve(FakeCore())
    names = [
        "vllm:spec_decode_num_drafts_total",
        "vllm:spec_decode_num_draft_tokens_total",
        "vllm:spec_decode_num_accepted_tokens_total",
        "vllm:spec_decode_num_accepted_tokens_per_pos_total",
        "vllm:prompt_tokens_total",
        "vllm:generation_tokens_total",
        "vllm:prefix_cache_queries_total",
        "vllm:inter_token_latency_seconds_count",
        "vllm:time_to_first_token_seconds_count",
        "vllm:e2e_request_latency_seconds_count",
        "vllm:request_success_total",
    ]
    before = {name: served.metric(name) for name in names}
    assert set(before.values()) == {0.0}
    served.complete("abc", max_tokens=30, n=2)
    after = {name: served.metric(name, model_name="fake") for name in names}
    assert all(after.values())
    assert after["vllm:generation_tokens_total"] == 60 and after["vllm:prompt_tokens_total"] == 6
    accepted = after["vllm:spec_decode_num_accepted_tokens_total"]
    assert after["vllm:spec_decode_num_accepted_tokens_per_pos_total"] == accepted
    assert served.metric("vllm:spec_decode_num_accepted_tokens_per_pos_total", position="5") == 0
    assert served.metric("vllm:time_to_first_token_seconds_count") == 2
    assert (
        served.metric("vllm:inter_token_latency_seconds_count") == after["vllm:spec_decode_num_drafts_total"]
    )
    for name in (
        "num_requests_running",
        "num_requests_waiting",
        "kv_cache_usage_perc",
        "num_preemptions_total",
    ):
        assert served.metric(f"vllm:{name}") == 0
    assert served.metric("vllm:prefix_cache_hits_total") == 0
    assert served.metric("onelaunch:metadata_launches_per_step") == 4


def test_a_stop_string_ends_a_request_successfully(serve):
    served = serve(FakeCore(max_model_len=10**6))
    served.complete("abc", max_tokens=10**5, stop="a")
    served.until(served.idle)
    assert served.metric("vllm:request_success_total", finished_reason="stop") == 1
    assert served.metric("vllm:request_success_total", finished_reason="abort") == 0


def samples(metrics: Metrics) -> dict[str, float]:
    families = text_string_to_metric_families(metrics.text().decode())
    return {sample.name: sample.value for family in families for sample in family.samples}


def test_latencies_are_from_arrival_and_between_outputs():
    metrics = Metrics(EngineStats(), "m", 0)

    def output(reason=None) -> RequestOutput:
        return RequestOutput(request_id="r", token_ids=(1, 2, 3), finish_reason=reason)

    metrics.started("r", arrival=10.0)
    metrics.took([output()], 13.0)
    metrics.took([output()], 14.0)
    metrics.took([output(FinishReason.LENGTH)], 16.5)
    metrics.took([output()], 99.0)  # of a request that has ended
    metrics.ended("r", FinishReason.ABORT, 99.0)
    seen = samples(metrics)
    assert seen["vllm:time_to_first_token_seconds_sum"] == 3.0
    assert seen["vllm:inter_token_latency_seconds_sum"] == 3.5
    assert seen["vllm:inter_token_latency_seconds_count"] == 2, "one an output, not one a token"
    assert seen["vllm:e2e_request_latency_seconds_sum"] == 6.5


def test_requests_that_a_fault_ends_are_counted_as_errors():
    metrics = Metrics(EngineStats(), "m", 0)
    for name in "ab":
        metrics.started(name, arrival=1.0)
    metrics.all_ended(FinishReason.ERROR, 2.0)
    text = metrics.text().decode()
    assert 'vllm:request_success_total{finished_reason="error",model_name="m"} 2.0' in text


@pytest.mark.parametrize("num_draft_tokens", [0, 6])
def test_without_drafting_there_are_no_counters_of_it(num_draft_tokens):
    metrics = Metrics(EngineStats(accepted_per_pos=[0] * num_draft_tokens), "m", num_draft_tokens)
    assert any("spec_decode" in name for name in samples(metrics)) == (num_draft_tokens > 0)


def test_servers_in_one_process_keep_their_metrics_apart():
    first, second = (Metrics(EngineStats(prompt_tokens=count), "m", 0) for count in (1, 2))
    assert samples(first)["vllm:prompt_tokens_total"] == 1
    assert samples(second)["vllm:prompt_tokens_total"] == 2
