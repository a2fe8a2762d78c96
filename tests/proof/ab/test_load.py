"""Result files of load programs, in their own shapes."""

from __future__ import annotations

import re

import pytest

from onelaunch.proof.ab.load import read_guidellm, read_vllm


def vllm(**fields):
    """The fields of vLLM 0.33's file that matter, and its chunk latency, which does not."""
    return {
        "num_prompts": 8,
        "completed": 8,
        "failed": 0,
        "max_concurrency": 2,
        "duration": 2.5,
        "total_output_tokens": 1024,
        "median_ttft_ms": 40.0,
        "median_tpot_ms": 5.25,
        "median_itl_ms": 20.0,
        **fields,
    }


def guidellm(successful=8, errored=0, incomplete=0, median=5.25):
    """The part of a guidellm report that is read."""

    def distribution(value, total=0.0):
        return {"successful": {"median": value, "total_sum": total}, "errored": {"median": 0.0}}

    totals = {"successful": successful, "errored": errored, "incomplete": incomplete}
    metrics = {
        "request_totals": {**totals, "total": successful + errored + incomplete},
        "inter_token_latency_ms": distribution(median),
        "time_to_first_token_ms": distribution(40.0),
        "output_token_count": distribution(128.0, 1024.0),
    }
    return {"metadata": {"version": 2}, "benchmarks": [{"metrics": metrics}]}


def test_vllms_time_per_output_token_is_taken_and_not_that_between_chunks():
    run = read_vllm(vllm(), 9.0)
    assert run.inter_token_latency_us == 5250
    assert run.time_to_first_token_us == 40_000
    assert (run.requests, run.output_tokens, run.seconds) == (8, 1024, 2.5)


def test_a_file_of_an_older_vllm_has_no_count_of_failures():
    fields = vllm()
    del fields["failed"]
    assert read_vllm(fields, 9.0).requests == 8


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"completed": 7}, "7 of 8 requests completed: all must"),
        ({"failed": 1}, "8 of 8 requests completed"),
        ({"median_tpot_ms": 0.0}, "its medians, 0 and 40 ms, are not both above 0"),
        ({"median_tpot_ms": None}, "it has no number median_tpot_ms"),
        ({"total_output_tokens": "many"}, "it has no number total_output_tokens"),
    ],
)
def test_a_vllm_run_with_a_hole_is_refused(fields, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        read_vllm(vllm(**fields), 9.0)


def test_guidellms_median_of_successful_requests_is_taken():
    run = read_guidellm(guidellm(), 9.0)
    assert run.inter_token_latency_us == 5250
    assert (run.requests, run.output_tokens, run.seconds) == (8, 1024, 9.0)


@pytest.mark.parametrize(
    ("report", "message"),
    [
        (guidellm(errored=1), "8 requests were answered, 1 failed, 0 were cut off: all must be answered"),
        (guidellm(incomplete=2), "2 were cut off"),
        (guidellm(successful=0), "0 requests were answered"),
        (guidellm(median=0.0), "not both above 0"),
        ({"benchmarks": guidellm()["benchmarks"] * 2}, "it has 2 benchmarks: it must have one"),
        ({}, "it has no benchmarks"),
        ({"benchmarks": [{}]}, "it has no number metrics.request_totals.successful"),
    ],
)
def test_a_guidellm_run_with_a_hole_is_refused(report, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        read_guidellm(report, 9.0)


@pytest.mark.parametrize("read", [read_vllm, read_guidellm])
@pytest.mark.parametrize("value", [None, [], "text", 3])
def test_what_is_no_result_is_refused(read, value):
    with pytest.raises(ValueError, match="it has no"):
        read(value, 9.0)
