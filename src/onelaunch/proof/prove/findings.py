"""What a tool's result says: a sentence, Markdown for the report, and what may be drawn."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onelaunch.proof.ab import report as ab_report
from onelaunch.proof.acceptance import result as acceptance_result
from onelaunch.proof.evaluate import report as evaluate_report
from onelaunch.proof.markdown import markdown_table
from onelaunch.proof.prove.state import Gathered

Result = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Finding:
    """A piece of evidence as the report shows it.

    Attributes:
        tool: the onelaunch command that made it, or "" for another program.
        says: a sentence.
        markdown: the rest, or "".
        result: the tool's JSON, if there is one.
    """

    gathered: Gathered
    tool: str
    says: str
    markdown: str
    result: Result | None


def find(gathered: Gathered, folder: Path) -> Finding:
    """Read a piece of evidence.

    Raises:
        ValueError: its result is not what its tool writes.
    """
    tool = tool_of(gathered.command)
    result = None
    if gathered.result is not None:
        path = folder / gathered.result
        try:
            result = json.loads(path.read_text())
            if tool in _TOOLS:
                says, markdown = _TOOLS[tool](result)
                return Finding(gathered, tool, says, markdown, result)
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise ValueError(f"{path} is no result of onelaunch {tool}: {error!r}") from None
    return Finding(gathered, tool, gathered.said, "", result)


def tool_of(command: Sequence[str]) -> str:
    """The subcommand of a command line that begins with onelaunch."""
    words = list(command)
    return words[1] if len(words) > 1 and words[0] == "onelaunch" else ""


def _verify(result: Result) -> tuple[str, str]:
    mismatches = result["mismatches"]
    counts = (
        f"{result['builds']:,} builds and {result['packs']:,} top-k packs by both paths on {result['device']}"
    )
    if mismatches:
        return f"the paths differ: {mismatches[0]}", ""
    covered = result["covered"]
    rows = [[name, f"{count:,}"] for name, count in covered.items() if count]
    table = markdown_table(["cases with", "count"], rows, left=1)
    return (
        f"{result['cases']:,} random cases, {counts}: all outputs equal",
        f"{len(rows)} of {len(covered)} features are covered:\n\n" + "\n".join(table),
    )


def _evaluate(result: Result) -> tuple[str, str]:
    return evaluate_report.headline(result), evaluate_report.markdown(result).partition("\n\n")[2]


def _acceptance(result: Result) -> tuple[str, str]:
    before = result.get("against")
    text = acceptance_result.markdown(result, before).partition("\n\n")[2]
    return acceptance_result.headline(result, before), text


def _ab(result: Result) -> tuple[str, str]:
    body = ab_report.markdown(result).partition("\n\n")[2]  # without its title
    return ab_report.headline(result), body.replace("\n## ", "\n#### ")


def _generate(result: Result) -> tuple[str, str]:
    says = (
        f"{result['launches_per_step']:g} metadata launches a step ({result['metadata_path']}); "
        f"{result['tokens']:,} tokens in {result['steps']:,} steps of {result['median_step_ms']:.2f} ms"
    )
    if result["acceptance_length"] is not None:
        says += f", acceptance length {result['acceptance_length']:.2f}"
    if "same_tokens" in result:
        says += "; the same tokens as before" if result["same_tokens"] else "; other tokens than before"
    rows = [[kernel, f"{count:,}"] for kernel, count in result["launches"].items()]
    return says, "\n".join(markdown_table(["metadata kernel", "launches a step"], rows, left=1))


def _load(result: Result) -> tuple[str, str]:
    keys = ("inter_token_latency_us", "time_to_first_token_us")
    rows = [
        [name, *(f"{result[key][p]:,.0f}" for p in ("p50", "mean", "p90", "p99"))]
        for name, key in zip(("inter-token latency", "time to first token"), keys, strict=True)
    ]
    table = markdown_table(["microseconds", "p50", "mean", "p90", "p99"], rows, left=1)
    says = (
        f"{result['requests']:,} requests, {result['concurrency']:,} in flight: "
        f"{result['output_tokens_per_second']:,.0f} tokens a second"
    )
    return says, "\n".join(table)


def _launches(result: Result) -> tuple[str, str]:
    if "a" not in result:
        rows = [[f"`{name}`", f"{one['mode']:,}"] for name, one in result["kernels"].items()]
        table = markdown_table(["kernel", "launches a step"], rows, left=1)
        return f"{_of_a_step(result)}, in {result['steps']:,} steps", "\n".join(table)
    a, b = result["a"], result["b"]
    rows = [[f"`{one['name']}`", f"{one['a']:,}", f"{one['b']:,}"] for one in result["changed"]]
    unchanged = len(result["unchanged"])
    text = "\n".join(markdown_table(["kernel whose count differs", "A", "B"], rows, left=1)) if rows else ""
    text += f"\n\n{unchanged} other kernel{'s are' if unchanged != 1 else ' is'} launched as often in both."
    return f"A: {_of_a_step(a)}; B: {_of_a_step(b)}", text


def _of_a_step(counts: Result) -> str:
    return (
        f"{counts['launches']['mode']:,} launches a step ({counts['graph_launches']:,} of graphs, with "
        f"{counts['graph_nodes']:,} nodes), {counts['device_us']:,.0f} us on the device"
    )


def _sync_check(result: Result) -> tuple[str, str]:
    count, steps = result["after_warmup"], result["steps"]
    says = f"{count:,} device synchronisation{'s' * (count != 1)} after warm-up"
    if steps:
        says += f", in {steps:,} steps"
    says += f" (watched for {', '.join(sorted(set(result['devices'].values())))})"
    rows = [[f"{one['count']:,}", f"`{one['what']}`", f"`{one['where']}`"] for one in result["places"]]
    return says, "\n".join(markdown_table(["count", "call", "where"], rows)) if rows else ""


_TOOLS: dict[str, Callable[[Result], tuple[str, str]]] = {
    "verify": _verify,
    "evaluate": _evaluate,
    "acceptance": _acceptance,
    "ab": _ab,
    "generate": _generate,
    "launches": _launches,
    "load": _load,
    "sync-check": _sync_check,
}
