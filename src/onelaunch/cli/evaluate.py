"""``onelaunch evaluate``: accuracy of a served model."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from onelaunch.cli.errors import CheckFailed
from onelaunch.cli.files import Against, file_option, json_option, require_writable
from onelaunch.cli.resumable import kept_in, resumable
from onelaunch.proof.evaluate.client import Asking, served_model
from onelaunch.proof.evaluate.questions import STOP, read_questions
from onelaunch.proof.evaluate.report import headline, markdown
from onelaunch.proof.evaluate.result import make_result, read_result
from onelaunch.proof.evaluate.runs import Evaluation, KeptRuns, run_all
from onelaunch.proof.evaluate.scoring import SCORES
from onelaunch.proof.extras import require
from onelaunch.proof.load.url import check_url

_ROUNDING = 1e-6  # points: equal means of several runs may differ in their last bit

evaluate = typer.Typer(
    no_args_is_help=True, help="Accuracy of a served model, and what differences are worth."
)


@evaluate.callback()
def _group() -> None:
    """Accuracy of a served model, and what differences are worth."""


@evaluate.command()
def gsm8k(
    data: Annotated[Path, file_option(help="Questions, as GSM8K's test.jsonl.")],
    base_url: Annotated[
        list[str], typer.Option(help="Of a server, without /v1; each one given gets all runs.")
    ],
    model: Annotated[str | None, typer.Option(help="Default: the one model that the server has.")] = None,
    shots: Annotated[int, typer.Option(min=0, help="Examples before each question.")] = 8,
    num_questions: Annotated[
        int | None, typer.Option(min=1, help="The file's first ones. Default: all.")
    ] = None,
    runs: Annotated[int, typer.Option(min=1, help="On each server.")] = 1,
    parallel: Annotated[int, typer.Option(min=1, help="Requests in flight.")] = 32,
    max_tokens: Annotated[int, typer.Option(min=1, help="Of an answer.")] = 512,
    temperature: Annotated[float, typer.Option(min=0.0, help="0 is greedy.")] = 0.0,
    salt: Annotated[
        bool, typer.Option("--salt", help="A cache_salt for each request: no prefix cache answers.")
    ] = False,
    score: Annotated[str, typer.Option(help=f"The rule that counts: {', '.join(SCORES)}.")] = "strict",
    timeout: Annotated[float, typer.Option(min=0.001, help="Seconds for one answer.")] = 600.0,
    against: Against = None,
    same_answers: Annotated[
        bool, typer.Option("--same-answers", help="Fail unless every answer is the same text as --against.")
    ] = False,
    min_accuracy: Annotated[
        float | None, typer.Option(min=0, max=100, help="Fail below this many percent.")
    ] = None,
    max_loss: Annotated[
        float | None, typer.Option(min=0, help="Fail when more points below --against than this.")
    ] = None,
    json_out: Annotated[Path | None, json_option("Write all answers to this file.")] = None,
) -> None:
    """Few-shot GSM8K over /v1/completions, scored by lm-eval's two filters.

    A request that fails ends its run as failed. With --json, finished runs are kept, and not made again.
    """
    require("httpx", "scipy")
    if score not in SCORES:
        raise ValueError(f"score is {score!r}: it must be one of {', '.join(SCORES)}")
    for name, wanted in (("max-loss", max_loss is not None), ("same-answers", same_answers)):
        if wanted and against is None:
            raise ValueError(f"{name} needs against, the result to be compared with")
    require_writable(json=json_out)
    servers = [url.rstrip("/").removesuffix("/v1") for url in base_url]
    for url in servers:
        check_url("base-url", url)
    if len(set(servers)) != len(servers):
        raise ValueError("base-url names a server twice: runs says how often each is asked")
    file = read_questions(data)
    evaluation = Evaluation(
        file,
        tuple(
            Asking(
                url,
                model if model is not None else asyncio.run(served_model(url)),
                parallel,
                max_tokens,
                temperature,
                STOP,
                salt,
                timeout,
            )
            for url in servers
        ),
        shots,
        len(file.questions) if num_questions is None else num_questions,
        runs,
    )
    before = None if against is None else read_result(against, evaluation)
    unfinished = None if json_out is None else json_out.with_name(json_out.name + ".unfinished")
    kept = KeptRuns(unfinished, evaluation.settings())
    if kept.runs:
        print(
            f"onelaunch: {len(kept.runs)} runs are kept from before ({kept.path}): of these servers as they "
            "were started then",
            file=sys.stderr,
        )
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    ) as progress:
        bar = progress.add_task("", total=evaluation.count)
        with resumable(progress, lambda: _kept(kept), failed="the run failed: "):
            made = run_all(
                evaluation,
                kept,
                lambda name, done: progress.update(bar, description=name, completed=done),
            )
    result = make_result(evaluation, made, score, before)
    print(markdown(result))
    if json_out is not None:
        json_out.write_text(json.dumps(result) + "\n")
        kept.remove()
    differ = max((pair["texts_differ"] for pair in result.get("against", {}).get("pairs", ())), default=0)
    if same_answers and differ:
        raise CheckFailed(f"{differ} of {evaluation.count} answers are other texts than in {against}")
    percent = 100 * result["accuracy"]
    if min_accuracy is not None and percent < min_accuracy:
        raise CheckFailed(f"accuracy is {percent:.2f}%: it must be at least {min_accuracy:g}%")
    if max_loss is not None and -100 * result["against"]["delta"] > max_loss + _ROUNDING:
        raise CheckFailed(f"more than {max_loss:g} points are lost: {headline(result)}")


def _kept(kept: KeptRuns) -> str:
    if not kept.runs or kept.path is None:
        return "no finished run is kept"
    return kept_in(kept.path, f"{len(kept.runs)} finished runs")
