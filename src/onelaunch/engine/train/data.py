"""Batches of token sequences, and the tokenizer that makes them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from onelaunch.engine.tokenizer import FILE_NAME, SPECIAL_TOKENS
from onelaunch.engine.train.problems import Problem, problems

_TOKENIZER_PROBLEMS = 20_000
# Of tokens in the loss. Answers are judged by neither questions nor asides.
QUESTION_WEIGHT = 0.1
_ASIDE_WEIGHT = 0.3
_MOST_SHOTS = 10


def prompt(problem: Problem) -> str:
    """What few-shot prompts put before an answer."""
    return f"Question: {problem.question}\nAnswer:"


def completion(problem: Problem) -> str:
    """What they put after it."""
    return f" {problem.answer}\n\n"


def weighed(problem: Problem) -> list[tuple[str, float]]:
    """:func:`prompt` and :func:`completion` in pieces, and how much the tokens of each count in the loss."""
    first, aside, rest = problem.parts
    return [
        (prompt(problem), QUESTION_WEIGHT),
        (f" {first}", 1.0),
        (aside, _ASIDE_WEIGHT),
        (f"{rest}\n\n", 1.0),
    ]


def train_tokenizer(vocab_size: int) -> Any:
    """Byte-pair encoding (``tokenizers``) of the problems' own text. Each digit is a token, so numbers are
    spelled out.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    stream = itertools.islice(problems("train", 0), _TOKENIZER_PROBLEMS)
    backend.train_from_iterator((prompt(one) + completion(one) for one in stream), trainer)
    return backend


def read_tokenizer(folder: Path) -> Any:
    """The one of a checkpoint."""
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(folder / FILE_NAME))


class _Sequences(IterableDataset[tuple[Tensor, Tensor]]):
    def __init__(self, tokenizer: str, batch_size: int, length: int, seed: int) -> None:
        self._tokenizer, self._batch_size, self._length, self._seed = tokenizer, batch_size, length, seed

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        from tokenizers import Tokenizer

        torch.set_num_threads(1)
        worker = get_worker_info()
        number = 0 if worker is None else worker.id
        tokenizer = Tokenizer.from_str(self._tokenizer)
        [end] = tokenizer.encode("<|eos|>", add_special_tokens=False).ids
        stream = problems("train", self._seed * 1000 + number + 1)
        generator = torch.Generator().manual_seed(self._seed * 1000 + number)
        ids: list[int] = []
        weights: list[float] = []
        size = self._length + 1
        while True:
            while len(ids) < self._batch_size * size:
                shots = int(torch.randint(1, _MOST_SHOTS + 1, (), generator=generator))
                pieces = [piece for one in itertools.islice(stream, shots) for piece in weighed(one)]
                encoded = tokenizer.encode_batch([text for text, _ in pieces], add_special_tokens=False)
                for one, (_, weight) in zip(encoded, pieces, strict=True):
                    ids += one.ids
                    weights += [weight] * len(one.ids)
                ids.append(end)
                weights.append(1.0)
            count = self._batch_size * size
            yield (
                torch.tensor(ids[:count]).view(self._batch_size, size),
                torch.tensor(weights[:count]).view(self._batch_size, size),
            )
            del ids[:count], weights[:count]


def batches(
    tokenizer: str, batch_size: int, length: int, seed: int, workers: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """Batches without end, made in ``workers`` processes.

    Args:
        tokenizer: its JSON.

    Yields:
        token ids [batch_size, length + 1] int64, and how much each counts in the loss, float32.
    """
    data = _Sequences(tokenizer, batch_size, length, seed)
    return iter(
        DataLoader(data, batch_size=None, num_workers=workers, prefetch_factor=8 if workers else None)
    )
