"""The paged KV cache as layers use it: keep these rows' keys, attend to what each row may see."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from onelaunch import pack_topk
from onelaunch.engine.attention import Compressed, dense_attention, ragged_attention
from onelaunch.engine.cache.groups import CacheGroup
from onelaunch.engine.model.attention import Attention, IndexQuery
from onelaunch.engine.model.target import Model
from onelaunch.metadata import StepMetadata
from onelaunch.syncs import not_on_gpu
from onelaunch.topk import PackedTopk

# Index keys that one pass scores: a prompt's chunk is scored in parts, which bounds what they take.
_KEYS_AT_ONCE = 1 << 26


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """The rows of a pass over the model, T of them.

    Attributes:
        token_ids, positions, requests: [T] int64; 0 in padded rows.
        is_row: [T] bool, False for padding.
    """

    token_ids: Tensor
    positions: Tensor
    requests: Tensor
    is_row: Tensor


class PagedMemory:
    """Caches of all layers, in blocks of one pool.

    The j-th layers of all groups share one tensor: a block is one group's at a time, so its layers never meet
    in it.

    Args:
        model: its layers and sizes.
        groups: the model's cache groups.
        num_blocks, block_size: of the pool.
        attention: the reader, "dense" or "ragged".
        topk_backend: of ``pack_topk``.
    """

    def __init__(
        self,
        model: Model,
        groups: Sequence[CacheGroup],
        num_blocks: int,
        block_size: int,
        attention: str,
        topk_backend: str,
    ) -> None:
        config, weight = model.config, model.embed.weight
        self._block_size = block_size
        self._groups = tuple(groups)
        self._topk, self._topk_backend = config.index_topk, topk_backend
        self._index_layer_of = [config.index_layer_of(layer) for layer in range(config.num_hidden_layers)]
        self._read = self._read_dense if attention == "dense" else self._read_ragged
        self._sinks = [attention.sink.float() for attention in model.attentions]

        def cache(width: int) -> Tensor:
            return torch.zeros(num_blocks * block_size, width, dtype=weight.dtype, device=weight.device)

        tensors = [cache(config.head_dim) for _ in range(max(len(group.layers) for group in groups))]
        self._window: dict[int, tuple[int, Tensor]] = {}  # by layer: index of its group, and its cache
        self._compressed: dict[int, tuple[int, Tensor]] = {}
        for index, group in enumerate(groups):
            for layer, tensor in zip(group.layers, tensors, strict=False):
                kept = self._window if group.window is not None else self._compressed
                kept[layer] = (index, tensor)
        self._index_keys = {layer: cache(config.index_head_dim) for layer in config.index_layers}
        self._draft = [(i, group) for i, group in enumerate(groups) if group.name.startswith("draft.")]

    def begin(self, rows: Rows, step: StepMetadata, tables: Sequence[Tensor]) -> None:
        """The next pass is over these rows, with this metadata and these block tables."""
        self._rows, self._step, self._tables = rows, step, tables
        self._made: dict[object, Tensor] = {}
        self._packed: dict[int, PackedTopk] = {}

    def attend(self, layer: Attention, query: Tensor, kv: Tensor, index: IndexQuery | None) -> Tensor:
        group, cache = self._window[layer.layer]
        name = self._groups[group].name
        slots = self._once(("slots", group), lambda: self._written(self._step[name].slot_mapping))
        cache.index_copy_(0, slots, kv)
        compressed = None
        if layer.ratio:
            compressed = self._compressed_rows(layer, kv, index)
        return self._read(layer, query, cache, name, compressed)

    def _read_dense(
        self, layer: Attention, query: Tensor, cache: Tensor, name: str, compressed: Compressed | None
    ) -> Tensor:
        group, sink = self._step[name], self._sinks[layer.layer]
        return dense_attention(query, cache, group.indices, group.lengths, sink, layer.scale, compressed)

    def _read_ragged(
        self, layer: Attention, query: Tensor, cache: Tensor, name: str, compressed: Compressed | None
    ) -> Tensor:
        group, sink = self._step[name], self._sinks[layer.layer]
        assert group.ragged_indices is not None and group.ragged_indptr is not None
        return ragged_attention(
            query, cache, group.ragged_indices, group.ragged_indptr, sink, layer.scale, compressed
        )

    def _compressed_rows(self, layer: Attention, kv: Tensor, index: IndexQuery | None) -> Compressed:
        """Write the compressed rows that these rows complete, and choose the top-k in an index layer."""
        group, cache = self._compressed[layer.layer]
        ratio, table = layer.ratio, self._tables[group]
        assert layer.compressor is not None
        slots = self._once(("compressed", ratio), lambda: self._completed_slots(table, ratio))
        made = layer.compressor(self._last_keys(layer, kv))
        cache.index_copy_(0, slots, made)
        if index is not None:
            assert layer.indexer is not None
            keys = self._index_keys[layer.layer]
            keys.index_copy_(0, slots, layer.indexer.key(made))
            self._packed[layer.layer] = self._choose(index, keys, table, ratio)
        chosen = self._index_layer_of[layer.layer]
        assert chosen is not None
        packed = self._packed[chosen]
        return Compressed(cache, packed.ragged_indices, packed.indptr)

    def _last_keys(self, layer: Attention, kv: Tensor) -> Tensor:
        """Each row's key and those of the ``ratio - 1`` positions before it: [T, ratio, D]."""
        if layer.ratio == 1:
            return kv[:, None]
        group, cache = self._window[layer.layer]
        table = self._tables[group]

        def slots() -> Tensor:
            ago = torch.arange(layer.ratio - 1, -1, -1, device=kv.device)
            positions = (self._rows.positions[:, None] - ago).clamp(min=0)
            return self._slots(table, positions)

        return cache[self._once(("last", group, layer.ratio), slots)]

    def _completed_slots(self, table: Tensor, ratio: int) -> Tensor:
        positions = self._rows.positions
        completes = self._rows.is_row & ((positions + 1) % ratio == 0)
        return self._slots(table, positions // ratio).where(completes, 0)

    def _choose(self, index: IndexQuery, keys: Tensor, table: Tensor, ratio: int) -> PackedTopk:
        """Each row's best compressed rows, of those that end at or before it."""
        num_entries = table.shape[1] * self._block_size
        num_visible = (self._rows.positions + 1) // ratio
        entries = torch.arange(num_entries, device=keys.device)
        slots = self._once(("entries", ratio), lambda: self._entry_slots(table, entries))
        rows_at_once = max(_KEYS_AT_ONCE // (num_entries * keys.shape[1]), 1)
        chosen = []
        for start in range(0, len(num_visible), rows_at_once):
            part = slice(start, start + rows_at_once)
            scores = IndexQuery(index.query[part], index.weights[part]).scores(
                keys[slots[self._rows.requests[part]]]
            )
            hidden = entries >= num_visible[part, None]
            best = scores.masked_fill(hidden, -torch.inf).topk(min(self._topk, num_entries), dim=-1)
            chosen.append(best.indices.where(best.values > -torch.inf, -1))
        local = torch.cat(chosen) if len(chosen) != 1 else chosen[0]
        rows = self._step.token_to_request, self._rows.is_row
        with not_on_gpu(table.device):
            return pack_topk(local.int(), *rows, table, self._block_size, backend=self._topk_backend)

    def _entry_slots(self, table: Tensor, entries: Tensor) -> Tensor:
        """[R, M] slots of all compressed rows of all requests."""
        return table[:, entries // self._block_size].long() * self._block_size + entries % self._block_size

    def write_context(self, keys: Sequence[Tensor], rows: Rows, tables: Sequence[Tensor]) -> None:
        """Keys that the draft's layers make of the target's rows: [T, D] a draft layer."""
        for (index, group), made in zip(self._draft, keys, strict=True):
            slots = self._slots(tables[index], rows.positions, rows.requests).where(rows.is_row, 0)
            self._window[group.layers[0]][1].index_copy_(0, slots, made)

    def _slots(self, table: Tensor, entries: Tensor, requests: Tensor | None = None) -> Tensor:
        """Cache slots of ``entries`` [T, ...] of each row's request."""
        requests = self._rows.requests if requests is None else requests
        requests = requests.view(-1, *[1] * (entries.dim() - 1))
        return (
            table[requests, entries // self._block_size].long() * self._block_size
            + entries % self._block_size
        )

    @staticmethod
    def _written(slot_mapping: Tensor | None) -> Tensor:
        """A padded row has slot -1: it writes to the null block, which nobody reads."""
        assert slot_mapping is not None
        return slot_mapping.clamp(min=0)

    def _once(self, key: object, make: Callable[[], Tensor]) -> Tensor:
        """Made once a pass: layers of a group share it."""
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]
