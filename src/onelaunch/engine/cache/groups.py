"""The KV-cache groups of a model: what decides which blocks a request needs in each."""

from __future__ import annotations

from dataclasses import dataclass

from onelaunch.engine.model.config import ModelConfig


@dataclass(frozen=True, slots=True)
class CacheGroup:
    """Layers that share a block table.

    Attributes:
        name: "window.0", "draft.0", "compressed.2".
        block_tokens: tokens that a block covers: entries of a block, times the ratio in a compressed group.
        window: positions before its own that a row may read; None keeps everything.
        lookahead: positions past a step's rows that are written too: the draft block's.
        layers: their numbers.
    """

    name: str
    block_tokens: int
    window: int | None
    lookahead: int
    layers: tuple[int, ...]


def cache_groups(config: ModelConfig, block_size: int, num_draft_tokens: int) -> tuple[CacheGroup, ...]:
    """The groups of a model: window groups, then draft groups (a layer each), then compressed ones.

    Args:
        block_size: cache entries of a block.
        num_draft_tokens: k; 0 leaves the draft's groups out.
    """
    window, layers = config.sliding_window, range(config.num_hidden_layers)
    groups = [
        CacheGroup(
            f"window.{group}",
            block_size,
            window,
            0,
            tuple(layer for layer in layers if config.window_group_of(layer) == group),
        )
        for group in range(config.num_window_groups)
    ]
    if num_draft_tokens:
        groups += [
            CacheGroup(f"draft.{i}", block_size, window, num_draft_tokens, (config.num_hidden_layers + i,))
            for i in range(config.num_draft_layers)
        ]
    groups += [
        CacheGroup(
            f"compressed.{ratio}",
            block_size * ratio,
            None,
            0,
            tuple(layer for layer in layers if config.compress_ratios[layer] == ratio),
        )
        for ratio in config.ratios
    ]
    return tuple(groups)
