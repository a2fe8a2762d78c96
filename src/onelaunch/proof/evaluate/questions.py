"""The questions of a GSM8K file, and their few-shot prompts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from onelaunch.proof.evaluate.scoring import has_reference

# Where an answer ends: at the next example that the model would make up.
STOP = ("Question", "Assistant:", "<|separator|>")


@dataclass(frozen=True, slots=True)
class Question:
    """A line of the file: the problem, and its worked answer, which ends in ``#### N``."""

    question: str
    answer: str


@dataclass(frozen=True, slots=True)
class QuestionFile:
    """All questions of a file.

    Attributes:
        sha256: of its bytes: results over different questions are not compared.
    """

    path: Path
    sha256: str
    questions: tuple[Question, ...]


def read_questions(path: Path) -> QuestionFile:
    """The questions of a JSON-lines file, as GSM8K's ``test.jsonl`` (Cobbe et al., arXiv 2110.14168).

    Raises:
        ValueError: a line is not a question with an answer; the message names it.
        OSError: the file can't be read.
    """
    data = path.read_bytes()
    questions = []
    try:
        lines = data.decode().split("\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is no text: {error}") from None
    for number, line in enumerate(lines, 1):
        if line.strip():
            questions.append(_question(line, f"{path}, line {number}"))
    if not questions:
        raise ValueError(f"{path} has no question")
    return QuestionFile(path, hashlib.sha256(data).hexdigest(), tuple(questions))


def _question(line: str, where: str) -> Question:
    try:
        values = json.loads(line)
        question = Question(values["question"], values["answer"])
    except (ValueError, KeyError, TypeError):
        raise ValueError(f'{where}: it must be {{"question": ..., "answer": ...}}') from None
    if not isinstance(question.question, str) or not isinstance(question.answer, str):
        raise ValueError(f"{where}: question and answer must be strings")
    if not has_reference(question.answer):
        raise ValueError(f"{where}: the answer must end in '#### ' and a number")
    return question


def few_shot_prompts(questions: Sequence[Question], shots: int, count: int) -> list[str]:
    """Prompts of the first ``count`` questions, each after the first ``shots`` questions and their answers.

    As SGLang's ``few_shot_gsm8k``: the examples are the file's own first questions, so those are asked with
    their answers in sight.

    Raises:
        ValueError: more shots or questions than the file has.
    """
    for name, value, least in (("shots", shots, 0), ("num-questions", count, 1)):
        if not least <= value <= len(questions):
            raise ValueError(
                f"{name} is {value}: it must be {least} to {len(questions)}, the file's questions"
            )
    examples = "".join(f"{_ask(one)} {one.answer}\n\n" for one in questions[:shots])
    return [examples + _ask(one) for one in questions[:count]]


def _ask(question: Question) -> str:
    return f"Question: {question.question}\nAnswer:"
