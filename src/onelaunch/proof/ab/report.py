"""A finished comparison as JSON and as Markdown for a pull request."""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections.abc import Mapping
from typing import Any

from onelaunch.proof.ab.load import Run
from onelaunch.proof.ab.plan import ARMS, Plan
from onelaunch.proof.ab.state import Point
from onelaunch.proof.ab.statistics import CONFIDENCE, Interval, summarize
from onelaunch.proof.markdown import markdown_table

_METRIC_NAMES = {
    "inter_token_latency": "inter-token latency",
    "time_to_first_token": "time to first token",
}
_TOKENS_MAY_DIFFER = 0.01


def make_report(plan: Plan, points: Mapping[tuple[int, str, int], Point]) -> dict[str, Any]:
    """The whole comparison, plain values only; times in microseconds.

    Raises:
        ValueError: a point is missing: there is no report of half a comparison.
    """
    missing = [
        (number, arm, concurrency)
        for number in range(plan.rounds)
        for arm in ARMS
        for concurrency in plan.concurrency
        if (number, arm, concurrency) not in points
    ]
    if missing:
        number, arm, concurrency = missing[0]
        raise ValueError(
            f"{len(missing)} points are missing, first round {number + 1}, {arm} at {concurrency}: "
            "there is no report of half a comparison"
        )
    return {
        "metric": plan.metric,
        "statistic": "p50 over the requests of a run, mean over runs and rounds",
        "unit": "us",
        "confidence_of_all_points": CONFIDENCE,
        "plan": plan.as_json(),
        "points": [_point(plan, points, concurrency) for concurrency in plan.concurrency],
    }


def _point(plan: Plan, points: Mapping[tuple[int, str, int], Point], concurrency: int) -> dict[str, Any]:
    base, change = ([points[number, arm, concurrency] for number in range(plan.rounds)] for arm in ARMS)
    summary = summarize(
        [_values(plan, point) for point in base],
        [_values(plan, point) for point in change],
        [point.place for point in base],
        num_points=len(plan.concurrency),
    )
    rounds = [
        {
            "round": number + 1,
            "base": _arm_round(plan, base[number]),
            "change": _arm_round(plan, change[number]),
            "delta_us": summary.change[number] - summary.base[number],
            "delta_percent": 100 * (summary.change[number] / summary.base[number] - 1),
        }
        for number in range(plan.rounds)
    ]
    tokens = [sum(run.output_tokens for point in arm for run in point.runs) for arm in (base, change)]
    return {
        "concurrency": concurrency,
        "verdict": summary.verdict,
        "base_us": _mean(summary.base),
        "change_us": _mean(summary.change),
        "delta_us": summary.delta,
        "delta_percent": summary.delta_percent,
        "confidence": summary.confidence,
        "bootstrap_us": _interval(summary.bootstrap),
        "t_us": _interval(summary.t),
        "run_spread_us": None
        if summary.run_spread is None
        else dict(zip(ARMS, summary.run_spread, strict=True)),
        "move_us": dict(zip(ARMS, summary.move, strict=True)),
        "output_tokens": dict(zip(ARMS, tokens, strict=True)),
        "rounds": rounds,
    }


def _arm_round(plan: Plan, point: Point) -> dict[str, Any]:
    values = _values(plan, point)
    return {
        "place": point.place,
        "mean_us": _mean(values),
        "runs_us": values,
        "runs": [dataclasses.asdict(run) for run in point.runs],
        "server_log": point.log,
    }


def _values(plan: Plan, point: Point) -> list[float]:
    return [_metric(run, plan.metric) for run in point.runs]


def _metric(run: Run, metric: str) -> float:
    return run.inter_token_latency_us if metric == "inter_token_latency" else run.time_to_first_token_us


def _mean(values: list[float] | tuple[float, ...]) -> float:
    return sum(values) / len(values)


def _interval(interval: Interval | None) -> list[float] | None:
    return None if interval is None else [interval.low, interval.high]


def markdown(report: Mapping[str, Any]) -> str:
    """A report of :func:`make_report` as Markdown."""
    plan, points = report["plan"], report["points"]
    lines = [
        f"# Base against change: {_METRIC_NAMES[report['metric']]}",
        "",
        *(f"- {sentence(point)}" for point in points),
        "",
        f"p50 over the requests of a run, in microseconds. {_how(plan)}",
        "",
        *_summary_table(points, report["confidence_of_all_points"]),
        "",
        *_noise_table(plan, points),
    ]
    for point in points:
        lines += ["", *_rounds_table(plan, point)]
    lines += ["", *_warnings(points), *_commands(plan)]
    return "\n".join(lines) + "\n"


def excludes_slowdown(point: Mapping[str, Any], percent: float) -> bool:
    """Whether both intervals of a point end below so much of a slowdown: few or noisy rounds do not."""
    ends = [point[name] for name in ("t_us", "bootstrap_us")]
    return all(end is not None and end[1] <= percent / 100 * point["base_us"] for end in ends)


def headline(report: Mapping[str, Any]) -> str:
    """The whole comparison in a line."""
    return f"{_METRIC_NAMES[report['metric']]}: {'; '.join(sentence(point) for point in report['points'])}"


def sentence(point: Mapping[str, Any]) -> str:
    """A point's verdict in a sentence."""
    where = f"{point['concurrency']} in flight"
    delta = f"{_signed(point['delta_us'])} us ({_percent(point['delta_percent'])})"
    if point["verdict"] == "too few rounds":
        return f"{where}: {delta}, but two rounds do not tell a difference from noise: run 4 or more"
    widest = max(abs(end - point["delta_us"]) for name in ("t_us", "bootstrap_us") for end in point[name])
    least = f"{widest:,.1f} us ({100 * widest / point['base_us']:.2f}%)"
    if point["verdict"] == "inside the noise":
        return f"{where}: inside the noise: {delta}, where only more than about {least} could be told"
    return f"{where}: change is {point['verdict']}: {delta}, give or take {least}"


def _how(plan: Mapping[str, Any]) -> str:
    warmup = f"{plan['warmup']} warm-up run{'s' * (plan['warmup'] != 1)}"
    runs = (
        f"{plan['rounds']} rounds; each starts both servers anew; {plan['runs']} runs a point after {warmup}."
    )
    if plan["halves"] is None:
        return f"{runs} One server at a time; the arm that goes first is swapped each round."
    halves = " and ".join(plan["halves"])
    return f"{runs} {plan['device_variable']} is {halves}, swapped each round; the arms' runs take turns."


def _summary_table(points: list[dict[str, Any]], confidence: float) -> list[str]:
    rows = [
        [
            str(point["concurrency"]),
            f"{point['base_us']:,.1f}",
            f"{point['change_us']:,.1f}",
            _signed(point["delta_us"]),
            _percent(point["delta_percent"]),
            _shown(point["bootstrap_us"]),
            _shown(point["t_us"]),
            point["verdict"],
        ]
        for point in points
    ]
    header = [
        "in flight",
        "base",
        "change",
        "delta us",
        "delta %",
        "paired bootstrap",
        "paired t",
        "change is",
    ]
    note = (
        f"Intervals are of the mean delta, at {100 * confidence:g}% for all points together. "
        "A difference is claimed only where neither holds 0."
    )
    return [*markdown_table(header, rows), "", note]


def _noise_table(plan: Mapping[str, Any], points: list[dict[str, Any]]) -> list[str]:
    rows = []
    for point in points:
        for arm in ARMS:
            mean = point[f"{arm}_us"]
            spread = (
                "-" if point["run_spread_us"] is None else _with_percent(point["run_spread_us"][arm], mean)
            )
            move = point["move_us"][arm]
            rows.append([str(point["concurrency"]), arm, spread, _with_percent(move, mean, signed=True)])
    moved = "second half - first" if plan["halves"] is not None else "going second - going first"
    header = ["in flight", "arm", "spread of runs on one server", f"same arm, {moved}"]
    note = "Spread: standard deviation over the runs of a server, pooled over servers."
    return ["## Noise", "", *markdown_table(header, rows), "", note]


def _rounds_table(plan: Mapping[str, Any], point: Mapping[str, Any]) -> list[str]:
    places = plan["halves"] or ["first", "second"]
    rows = [
        [
            str(one["round"]),
            places[one["base"]["place"]],
            f"{one['base']['mean_us']:,.1f}",
            places[one["change"]["place"]],
            f"{one['change']['mean_us']:,.1f}",
            _signed(one["delta_us"]),
            _percent(one["delta_percent"]),
        ]
        for one in point["rounds"]
    ]
    rows.append(
        [
            "mean",
            "",
            f"{point['base_us']:,.1f}",
            "",
            f"{point['change_us']:,.1f}",
            _signed(point["delta_us"]),
            _percent(point["delta_percent"]),
        ]
    )
    place = "on" if plan["halves"] is not None else "turn"
    header = ["round", f"base {place}", "base", f"change {place}", "change", "delta us", "delta %"]
    return [f"## Rounds, {point['concurrency']} in flight", "", *markdown_table(header, rows)]


def _warnings(points: list[dict[str, Any]]) -> list[str]:
    lines = []
    for point in points:
        base, change = (point["output_tokens"][arm] for arm in ARMS)
        if abs(change - base) > _TOKENS_MAY_DIFFER * base:
            lines += [
                f"**{point['concurrency']} in flight: base made {base:,} tokens and change {change:,}: "
                "the arms did not do the same work.**",
                "",
            ]
    return lines


def _commands(plan: Mapping[str, Any]) -> list[str]:
    lines = ["## Commands", "", "```sh"]
    for arm in ARMS:
        env = [f"{name}={shlex.quote(value)}" for name, value in plan["arms"][arm]["env"].items()]
        lines += [f"# {arm}", " ".join([*env, _command(plan["arms"][arm]["server"])])]
    for arm in ARMS if plan["arms"]["base"]["load"] != plan["arms"]["change"]["load"] else ARMS[:1]:
        load = plan["arms"][arm]["load"]
        lines += ["# load", _command(load["command"]) if load["command"] else _built_in(load)]
    return [*lines, "```"]


def _command(words: list[str]) -> str:
    """As a shell takes it, but for placeholders, which need no quotes once they are filled in."""
    return re.sub(r"'(\{[a-z_]+\})'", r"\1", shlex.join(words))


def _built_in(load: Mapping[str, Any]) -> str:
    text = " --text" if load["text"] else f" --vocab-size {load['vocab_size']}"
    return (
        f"onelaunch load --base-url {{base_url}} --model {shlex.quote(load['model'])} "
        f"--concurrency {{concurrency}} --requests {{{load['requests_per_stream']} x concurrency}} "
        f"--prompt-tokens {load['prompt_tokens']} --max-tokens {load['max_tokens']}{text} --seed {{seed}}"
    )


def _shown(interval: list[float] | None) -> str:
    return "-" if interval is None else f"{_signed(interval[0])} to {_signed(interval[1])}"


def _signed(value: float) -> str:
    return f"{value:+,.1f}"


def _percent(value: float) -> str:
    return f"{value:+.2f}%"


def _with_percent(value: float, of: float, *, signed: bool = False) -> str:
    percent = 100 * value / of
    return f"{_signed(value)} us ({percent:+.2f}%)" if signed else f"{value:,.1f} us ({percent:.2f}%)"
