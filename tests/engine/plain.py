"""The model's attention over a whole sequence, row by row: what serving from a paged cache must equal."""

from __future__ import annotations

import torch


class PlainMemory:
    """Keys of one sequence's earlier positions in lists; every row attends by itself."""

    def __init__(self, config):
        self.config = config
        self.chosen: dict[int, list[list[int]]] = {}

    def attend(self, layer, query, kv, index):
        window, ratio = self.config.sliding_window, layer.ratio
        made = []
        if ratio:
            for end in range(ratio, len(kv) + 1, ratio):
                made.append(layer.compressor(kv[None, end - ratio : end])[0])
        if index is not None:
            keys = [layer.indexer.key(one) for one in made]
            self.chosen[ratio] = [self.best(index, keys, row, ratio) for row in range(len(kv))]
        out = []
        for row in range(len(kv)):
            keys = list(kv[max(row - window + 1, 0) : row + 1])
            if ratio:
                keys += [made[i] for i in self.chosen[ratio][row]]
            keys = torch.stack(keys)
            scores = torch.cat((query[row] @ keys.T * layer.scale, layer.sink[:, None]), 1)
            out.append(scores.softmax(-1)[:, :-1] @ keys)
        return torch.stack(out)

    def best(self, index, keys, row, ratio):
        visible = (row + 1) // ratio
        scores = [
            sum(w * max(float(q @ key), 0) for w, q in zip(index.weights[row], index.query[row], strict=True))
            for key in keys[:visible]
        ]
        order = sorted(range(visible), key=lambda i: (float(scores[i]), i), reverse=True)
        return order[: self.config.index_topk]


def plain_logits(model, token_ids):
    """[T, vocab] of a whole sequence."""
    ids = torch.tensor(token_ids)
    hidden, _ = model(ids, torch.arange(len(ids)), PlainMemory(model.config))
    return model.logits(hidden)


def greedy(model, prompt, count):
    """The next ``count`` tokens at temperature 0, by computing the whole sequence for each."""
    tokens = list(prompt)
    for _ in range(count):
        tokens.append(int(plain_logits(model, tokens)[-1].argmax()))
    return tuple(tokens[len(prompt) :])
