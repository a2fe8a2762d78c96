"""Log-probabilities for the requests of a step that ask for them. Most don't, and cost nothing here."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from onelaunch.engine.model.target import Model
from onelaunch.engine.outputs import TokenLogprobs
from onelaunch.engine.sampling import token_logprobs
from onelaunch.engine.scheduler import Scheduled


def sampled_logprobs(
    batch: Sequence[Scheduled], logits: Tensor, token_ids: Tensor, on_host: NDArray[np.int64]
) -> list[tuple[TokenLogprobs, ...]]:
    """Of each request's new tokens; empty where not asked for.

    Args:
        logits: [R, k + 1, vocab] float32, before temperature.
        token_ids: [R, k + 1] int64, -1 after a request's tokens.
        on_host: the same.
    """
    result: list[tuple[TokenLogprobs, ...]] = []
    for place, scheduled in enumerate(batch):
        wanted = scheduled.request.params.logprobs
        if wanted is None or not scheduled.samples:
            result.append(())
            continue
        count = int((on_host[place] >= 0).sum())
        result.append(_logprobs(logits[place, :count], token_ids[place, :count], wanted))
    return result


def prompt_logprobs(
    batch: Sequence[Scheduled], model: Model, hidden: Tensor, query_start_loc: Tensor
) -> list[tuple[TokenLogprobs, ...]]:
    """Of the prompt tokens that follow a prefill's rows; empty where not asked for.

    Args:
        hidden: [T, hidden], of all rows.
        query_start_loc: [R + 1] int32.
    """
    result: list[tuple[TokenLogprobs, ...]] = []
    for place, scheduled in enumerate(batch):
        request = scheduled.request
        wanted = request.params.prompt_logprobs
        first = request.num_computed + 1
        following = request.prompt_token_ids[first : first + scheduled.num_rows]
        if wanted is None or request.decoding or not following:
            result.append(())
            continue
        start = int(query_start_loc[place])
        logits = model.logits(hidden[start : start + len(following)])
        result.append(_logprobs(logits, torch.tensor(following, device=logits.device), wanted))
    return result


def _logprobs(logits: Tensor, token_ids: Tensor, num_top: int) -> tuple[TokenLogprobs, ...]:
    logprob, top_ids, top = (part.cpu().tolist() for part in token_logprobs(logits, token_ids, num_top))
    ids = token_ids.tolist()
    return tuple(
        TokenLogprobs(token_id, own, tuple(zip(best, values, strict=True)))
        for token_id, own, best, values in zip(ids, logprob, top_ids, top, strict=True)
    )
