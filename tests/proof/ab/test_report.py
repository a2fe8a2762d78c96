"""The report of a comparison: its numbers, its sentences, and that there is none of a half one."""

from __future__ import annotations

import json

import pytest

from onelaunch.proof.ab.load import Run
from onelaunch.proof.ab.report import excludes_slowdown, make_report, markdown, sentence
from onelaunch.proof.ab.state import Point
from proof.ab.arena import plan


def points(plan, change_us, tokens=400):
    """Base at 5,000 us with a little scatter, change where a function of round and run says."""
    found = {}
    for number in range(plan.rounds):
        for index, arm in enumerate(("base", "change")):
            for concurrency in plan.concurrency:
                runs = tuple(
                    Run(
                        5000.0 + number + 2 * i if arm == "base" else change_us(number, i),
                        90_000.0,
                        4,
                        400 if arm == "base" else tokens,
                        1.0,
                    )
                    for i in range(plan.runs)
                )
                place = (index + number) % 2
                point = Point(number, arm, concurrency, place, f"logs/{number}-{arm}.log", runs)
                found[point.key] = point
    return found


def faster(number, i):
    return 4900.0 + number + 2 * i + 0.5 * (number // 2)


WHOLE = plan(rounds=6, runs=2, concurrency=[1, 8], halves=["0,1", "2,3"])


def test_a_clear_difference_is_told_with_its_size_and_interval():
    report = make_report(WHOLE, points(WHOLE, faster))
    point = report["points"][1]
    assert point["concurrency"] == 8
    assert point["verdict"] == "faster"
    assert point["base_us"] == pytest.approx(5003.5)
    assert point["delta_us"] == pytest.approx(-99.5)
    assert point["delta_percent"] == pytest.approx(-100 * 99.5 / 5003.5)
    for name in ("bootstrap_us", "t_us"):
        assert point[name][0] < -99.5 < point[name][1] < 0
    assert point["run_spread_us"]["base"] == pytest.approx(2**0.5)
    assert point["move_us"] == {"base": pytest.approx(1.0), "change": pytest.approx(-1.0)}
    assert point["confidence"] == pytest.approx(1 - 0.025 / 2)  # two points share it
    assert sentence(point).startswith("8 in flight: change is faster: -99.5 us (-1.99%), give or take ")


def test_each_round_has_both_arms_their_runs_and_the_delta():
    (one, *_) = make_report(WHOLE, points(WHOLE, faster))["points"]
    third = one["rounds"][2]
    assert third["round"] == 3
    assert third["base"]["runs_us"] == [5002, 5004]
    assert third["change"]["mean_us"] == pytest.approx(4903.5)
    assert third["delta_us"] == pytest.approx(-99.5)
    assert third["base"]["server_log"] == "logs/2-base.log"
    assert [a_round["base"]["place"] for a_round in one["rounds"]] == [0, 1] * 3


def test_a_difference_inside_the_noise_is_called_so_with_what_could_have_been_told():
    noisy = points(WHOLE, lambda number, i: 4990.0 + 200 * (number % 3))
    (point, _) = make_report(WHOLE, noisy)["points"]
    assert point["verdict"] == "inside the noise"
    assert "inside the noise" in sentence(point)
    assert "could be told" in sentence(point)


def test_two_rounds_say_that_they_are_too_few():
    small = plan(rounds=2)
    report = make_report(small, points(small, lambda number, i: 1.0))
    assert "run 4 or more" in sentence(report["points"][0])
    assert report["points"][0]["t_us"] is None
    assert "| too few rounds |" in markdown(report)


def test_the_other_metric_is_taken_when_the_plan_says_so():
    other = plan(rounds=4, metric="time_to_first_token")
    report = make_report(other, points(other, faster))
    assert report["points"][0]["base_us"] == 90_000
    assert markdown(report).startswith("# Base against change: time to first token")


def test_a_missing_point_means_no_report():
    all_but_one = points(WHOLE, faster)
    del all_but_one[3, "change", 8]
    with pytest.raises(ValueError, match="1 points are missing, first round 4, change at 8"):
        make_report(WHOLE, all_but_one)


def test_arms_that_made_different_numbers_of_tokens_are_pointed_out():
    assert "did not do the same work" in markdown(make_report(WHOLE, points(WHOLE, faster, tokens=390)))
    assert "did not do the same work" not in markdown(make_report(WHOLE, points(WHOLE, faster, tokens=399)))


def test_the_markdown_has_a_row_a_round_the_noise_and_the_commands():
    text = markdown(make_report(WHOLE, points(WHOLE, faster)))
    tables = text.split("## ")
    rounds = next(table for table in tables if table.startswith("Rounds, 8 in flight"))
    rows = [line for line in rounds.split("\n") if line.startswith("|")]
    assert len(rows) == 2 + 6 + 1
    assert [cell.strip() for cell in rows[3].split("|")[1:-1]] == [
        *("2", "2,3", "5,002.0", "0,1", "4,902.0", "-100.0", "-2.00%")
    ]
    assert rows[-1].split("|")[1].strip() == "mean"
    assert "CUDA_VISIBLE_DEVICES is 0,1 and 2,3, swapped each round" in text
    assert "same arm, second half - first" in text
    assert "--model m --concurrency {concurrency}" in text
    assert "{port}" in text and "'{port}'" not in text
    widths = {len(line) for line in rows}
    assert len(widths) == 1  # it can be read as it is


def test_a_slowdown_is_excluded_by_intervals_and_not_by_noise():
    def noisy(number, i):
        return 5000.0 + number + 2 * i + 400 * (-1) ** (number // 2)

    one = plan(rounds=4, concurrency=[1])
    [close] = make_report(one, points(one, lambda number, i: 5001.0 + number + 2 * i + 0.5 * (number // 2)))[
        "points"
    ]
    assert excludes_slowdown(close, 1) and not excludes_slowdown(close, 0)
    [wide] = make_report(one, points(one, noisy))["points"]
    assert wide["verdict"] == "inside the noise" and not excludes_slowdown(wide, 5)
    two = plan(rounds=2, concurrency=[1])
    [few] = make_report(two, points(two, faster))["points"]
    assert not excludes_slowdown(few, 50), "two rounds tell nothing"


def test_a_report_is_plain_json():
    report = make_report(WHOLE, points(WHOLE, faster))
    assert json.loads(json.dumps(report)) == report
