"""Training of the draft: the target's own hidden states in, its distributions out.

Blocks start at many places of a sequence at once. A block's rows see what they will see when serving: the
window of the target's hidden states before it, the anchor, and noise.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from onelaunch.engine.model.target import Model
from onelaunch.engine.train.data import QUESTION_WEIGHT
from onelaunch.engine.train.sequence import BlockMemory, SequenceMemory

_BLOCK_EVERY = 8  # tokens of a sequence
_DECAY = 0.85  # weight of a row against the one before: a token counts only when those before it were right


def draft_loss(model: Model, token_ids: Tensor, weights: Tensor, num_drafts: int) -> dict[str, Tensor]:
    """Losses of a batch, "total", which is minimised, and the "acceptance length" at temperature 0.

    Args:
        token_ids: [B, S + 1] int64.
        weights: [B, S + 1] float32; blocks start where it is above a question's: in answers.
        num_drafts: k.
    """
    batch_size, length = token_ids.shape[0], token_ids.shape[1] - 1
    draft, k = model.draft, num_drafts
    turns = model.rotary.turns(torch.arange(length, device=token_ids.device))
    with torch.no_grad():
        memory = SequenceMemory(model.config, batch_size, length)
        positions = torch.arange(length, device=token_ids.device).repeat(batch_size)
        hidden, read = model(token_ids[:, :-1].flatten(), positions, memory)
        hidden = hidden.view(batch_size, length, -1)

    # Anchors: answer tokens with a whole block after them. Each row's best of random numbers is a random
    # choice.
    may_start = weights[:, 1 : length - k] > QUESTION_WEIGHT
    lottery = torch.rand_like(weights[:, 1 : length - k]).masked_fill(~may_start, -1)
    places = lottery.topk(-(-lottery.shape[1] // _BLOCK_EVERY), dim=1).indices
    start = places.flatten() + 1
    sequence = torch.arange(batch_size, device=token_ids.device).repeat_interleave(places.shape[1])
    steps = torch.arange(k, device=token_ids.device)
    at = sequence[:, None], start[:, None] + steps

    context = draft.context(read)
    keys = [
        one.view(batch_size, length, -1) for one in draft.context_keys(context, turns.repeat(batch_size, 1))
    ]
    blocks = BlockMemory(model.config, keys, sequence, start, k, model.config.num_hidden_layers)
    anchors = token_ids[sequence, start]
    rows = torch.where(steps == 0, anchors[:, None], model.config.noise_token_id)
    out = draft(model.embed(rows.flatten()), turns[start[:, None] + steps].flatten(0, 1), blocks).view(
        *rows.shape, -1
    )

    previous = token_ids[at]  # the true ones: what each row's token comes after
    logits = model.draft_logits(out) + draft.bias(previous)
    with torch.no_grad():
        wanted = model.logits(hidden[at])
        agrees = logits.argmax(-1) == wanted.argmax(-1)
        accepted = agrees.long().cumprod(1).sum(1)
    decay = _DECAY**steps
    lost = F.kl_div(logits.log_softmax(-1), wanted.log_softmax(-1), reduction="none", log_target=True).sum(-1)
    distil = (lost * decay).mean()
    confidence = draft.confidence_logits(out.detach(), previous)
    calibration = F.binary_cross_entropy_with_logits(confidence, agrees.float())
    return {
        "total": distil + calibration,
        "distillation": distil,
        "confidence": calibration,
        "acceptance length": 1 + accepted.float().mean(),
    }
