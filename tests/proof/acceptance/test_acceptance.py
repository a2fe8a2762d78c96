"""Readings of counters, and what two of them say."""

from __future__ import annotations

import json

import pytest

from onelaunch.proof.acceptance.reading import Reading, parse_metrics
from onelaunch.proof.acceptance.result import (
    headline,
    loss_percent,
    make_result,
    markdown,
    read_result,
    warning,
)

# As vLLM 0.33 prints it: two engines behind one page, and a counter's own time of creation.
VLLM = """\
# HELP vllm:spec_decode_num_drafts_total Number of spec decoding drafts.
# TYPE vllm:spec_decode_num_drafts_total counter
vllm:spec_decode_num_drafts_total{engine="0",model_name="m"} 10.0
vllm:spec_decode_num_drafts_total{engine="1",model_name="m"} 5.0
vllm:spec_decode_num_drafts_total{engine="0",model_name="other"} 1.0
# TYPE vllm:spec_decode_num_drafts_created gauge
vllm:spec_decode_num_drafts_created{engine="0",model_name="m"} 1.7e+09
# TYPE vllm:spec_decode_num_draft_tokens_total counter
vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="m"} 45.0
# TYPE vllm:spec_decode_num_accepted_tokens_total counter
vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="m"} 20.0
vllm:spec_decode_num_accepted_tokens_total{engine="1",model_name="m"} 4.0
# TYPE vllm:spec_decode_num_accepted_tokens_per_pos_total counter
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="0"} 9.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="1",model_name="m",position="0"} 3.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="1"} 6.0
# TYPE vllm:prefix_cache_queries_total counter
vllm:prefix_cache_queries_total{engine="0",model_name="m"} 100.0
# TYPE vllm:prefix_cache_hits_total counter
vllm:prefix_cache_hits_total{engine="0",model_name="m"} 25.0
"""


def test_engines_are_summed_and_models_are_apart():
    assert parse_metrics(VLLM, "here", "m") == Reading(15, 45, 24, {0: 12, 1: 6}, 100, 25)
    assert parse_metrics(VLLM, "here").drafts == 16


@pytest.mark.parametrize(
    ("text", "model", "says"),
    [
        ("<html>no</html>", None, "no Prometheus text"),
        ("", None, "has no vllm:spec_decode_num_drafts_total"),
        (VLLM, "gone", "of model gone"),
        (VLLM.replace("num_accepted_tokens_total", "x"), None, "spec_decode_num_accepted_tokens_total"),
    ],
)
def test_what_is_no_reading_is_named(text, model, says):
    with pytest.raises(ValueError, match=says):
        parse_metrics(text, "here", model)


def test_a_pass_is_the_difference_of_two_readings():
    before = Reading(100, 600, 50, {0: 40, 1: 10}, 1000, 0)
    after = Reading(120, 720, 110, {0: 58, 1: 30}, 1400, 100)
    result = make_result(before, after, 2.5)
    assert result["acceptance_length"] == pytest.approx(1 + 60 / 20)
    assert result["acceptance_rate"] == pytest.approx(60 / 120)
    assert result["acceptance_rate_per_position"] == pytest.approx([18 / 20, 20 / 20])
    assert (result["prefix_cache_queries"], result["prefix_cache_hits"]) == (400, 100)
    assert "4.000 over 20 drafts" in headline(result)
    text = markdown(result)
    assert "position 2" in text and "25.0% of 400" in text


def test_a_position_that_appears_later_starts_at_zero():
    result = make_result(Reading(0, None, 0), Reading(4, None, 2, {0: 2}), 1)
    assert result["acceptance_rate_per_position"] == [0.5]
    assert result["acceptance_rate"] is None and result["prefix_cache_queries"] is None


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        (Reading(10, None, 5), Reading(9, None, 9), "drafts fell from 10 to 9"),
        (Reading(10, None, 5), Reading(12, None, 1), "accepted tokens fell"),
        (Reading(10, None, 5), Reading(10, None, 5), "no draft was verified"),
    ],
)
def test_readings_without_a_pass_between_them(before, after, says):
    with pytest.raises(ValueError, match=says):
        make_result(before, after, 1)


def a_pass(length, hits=0.0):
    drafts = 1000
    accepted = round((length - 1) * drafts)
    return make_result(Reading(0, 0, 0, {}, 0, 0), Reading(drafts, 6000, accepted, {}, 100, 100 * hits), 1)


def test_a_loss_is_in_percent_of_what_was():
    assert loss_percent(a_pass(4.0), a_pass(2.84)) == pytest.approx(29)
    assert loss_percent(a_pass(4.0), a_pass(4.4)) == pytest.approx(-10)
    assert "(-29.00%)" in headline(a_pass(2.84), a_pass(4.0))


def test_different_prefix_cache_hits_are_warned_of():
    assert warning(a_pass(3, 0.5), a_pass(3, 0.505)) is None
    assert "50.0% of prompt tokens" in warning(a_pass(3, 0.5), a_pass(3, 0.0))
    uncounted = make_result(Reading(0, None, 0), Reading(4, None, 2), 1)
    assert "not known" in warning(uncounted, a_pass(3))
    assert "compare first passes" in markdown(a_pass(3, 0.5), a_pass(3))


def test_what_is_no_result_is_refused(tmp_path):
    path = tmp_path / "x.json"
    for text in ("", "[]", "{}", '{"acceptance_length": 0.5, "acceptance_rate_per_position": []}'):
        path.write_text(text)
        with pytest.raises(ValueError, match="must be a result of onelaunch acceptance"):
            read_result(path)
    path.write_text(json.dumps(a_pass(3)))
    assert read_result(path)["acceptance_length"] == 3
