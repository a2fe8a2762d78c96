"""A continuous-batching schedule: the decode steps an engine would run for a trace.

The life of a request of C context and N generated tokens, with a draft of k tokens:

1. It waits from its arrival, first come first served, for a free row of the batch and for its blocks.
2. At admission it reserves the most blocks its windows can hold at once, in all groups, so a running
   request never runs out and none is preempted. Its prefill counts as done: the KV of C tokens is in
   the cache and the first token is made.
3. Each decode step verifies k draft tokens after its last token: 1 + k rows in the target's batch. It
   keeps a drawn number of them, from 1 to 1 + k, never more than it still has to make.
4. The step then drafts anew: k rows in the draft's batch after the tokens just kept.
5. Blocks below the windows are freed as it grows. With N tokens made it leaves after its draft.

Batches are padded as engines pad them to replay full CUDA graphs: to a captured number of requests,
with padding requests of no rows, and padded rows of slot -1. Each step lasts the same simulated time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from onelaunch.groups import WindowGroup
from onelaunch.traffic.acceptance import Acceptance
from onelaunch.traffic.pages import NULL_BLOCK, BlockPool, BlockTable, max_live_blocks
from onelaunch.traffic.trace import Request

_MAX_MODEL_LEN = 131_072


@dataclass(frozen=True, slots=True, eq=False)
class StepInputs:
    """What one metadata build of a step is given. R requests and T rows, padding included, G groups.

    Attributes:
        query_start_loc: [R+1] int32.
        seq_lens: [R] int32; 0 for a padding request.
        num_tokens: T.
        block_tables: [G, R, B] int32, in the schedule's order of groups; B is its ``max_blocks``.
        slot_mappings: [G, T] int64, -1 for a padded row.
    """

    query_start_loc: NDArray[np.int32]
    seq_lens: NDArray[np.int32]
    num_tokens: int
    block_tables: NDArray[np.int32]
    slot_mappings: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class DecodeStep:
    """One decode step. n is the number of requests in it, without padding.

    Attributes:
        time_s: simulated time at which it starts.
        target: the verification's inputs: 1 + k rows a request.
        draft: the drafting's inputs: k rows a request, after the tokens just kept.
        request_ids: [n] int64, index in the trace.
        accepted: [n] int64, acceptance length drawn, 1 to 1 + k.
        kept: [n] int64, tokens made: ``accepted``, or fewer in a request's last step.
    """

    time_s: float
    target: StepInputs
    draft: StepInputs
    request_ids: NDArray[np.int64]
    accepted: NDArray[np.int64]
    kept: NDArray[np.int64]


def serving_groups(
    window: int = 128, block_size: int = 64, draft_tokens: int = 6
) -> tuple[list[WindowGroup], list[WindowGroup]]:
    """The target's groups ``swa.0 .. swa.3`` and the draft's ``draft.0 .. draft.2``."""
    target = [WindowGroup(f"swa.{i}", window, block_size) for i in range(4)]
    draft = [
        WindowGroup(f"draft.{i}", window, block_size, causal=False, draft_tokens=draft_tokens)
        for i in range(3)
    ]
    return target, draft


def capture_sizes(max_batch: int) -> NDArray[np.int64]:
    """Requests of the captured graphs: 1, 2, 4, then every multiple of 8, up to ``max_batch``."""
    small = [size for size in (1, 2, 4) if size < max_batch]
    return np.array([*small, *range(8, max_batch, 8), max_batch])


class Schedule:
    """Iterate once over the decode steps of ``requests``.

    Args:
        requests: in arrival order.
        target: the target's groups; causal.
        draft: the draft's groups; all with ``acceptance.draft_tokens`` rows a request.
        acceptance: draws the tokens a verification keeps.
        max_batch: requests in a step at most.
        num_blocks: physical blocks of the pool all groups share, with the null block. None: enough
            for a full batch of the longest requests. Their slots must fit int32.
        step_s: simulated seconds of a decode step. Longer steps mean more requests at a time.
        seed: of the acceptance draws.

    Attributes:
        generated: [N] int64, tokens made so far for each request of the trace.
        max_blocks: columns of every block table, enough for the longest request.
        num_served: requests that have left with all their tokens.

    Raises:
        ValueError: an argument is out of range, or a request can never be served.
    """

    def __init__(
        self,
        requests: Sequence[Request],
        target: Sequence[WindowGroup],
        draft: Sequence[WindowGroup],
        acceptance: Acceptance,
        *,
        max_batch: int = 64,
        num_blocks: int | None = None,
        step_s: float = 0.05,
        seed: int = 0,
    ) -> None:
        if max_batch < 1:
            raise ValueError(f"max_batch is {max_batch}: a step needs room for at least 1 request")
        if not step_s > 0:
            raise ValueError(f"step_s is {step_s}: a decode step takes time")
        if not target or not draft:
            raise ValueError("target and draft must each have at least 1 group")
        k = acceptance.draft_tokens
        for argument, groups, rows in (("target", target, None), ("draft", draft, k)):
            for group in groups:
                if group.draft_tokens != rows:
                    raise ValueError(
                        f"{argument} holds {group.name!r} with draft_tokens {group.draft_tokens}: "
                        f"it must be {rows}"
                    )
        self._draft_tokens = k
        self._acceptance = acceptance
        self._step_s = step_s
        self._rng = np.random.default_rng(seed)
        self._max_batch = max_batch
        self._sizes = capture_sizes(max_batch)

        self._arrival_s = np.array([request.arrival_s for request in requests], dtype=np.float64)
        if (np.diff(self._arrival_s) < 0).any():
            raise ValueError("requests must be in arrival order")
        self._context = np.array([request.context_tokens for request in requests], dtype=np.int64)
        self._wanted = np.array([request.generated_tokens for request in requests], dtype=np.int64)
        self.generated = np.zeros_like(self._wanted)
        self.num_served = 0

        self._reserved = self._blocks_to_reserve([*target, *draft])
        if num_blocks is None:
            num_blocks = 1 + max_batch * int(self._reserved.max(initial=1))
        largest = max(group.block_size for group in (*target, *draft))
        if num_blocks * largest > 2**31:
            raise ValueError(
                f"num_blocks is {num_blocks}: its slots, blocks of up to {largest}, must be below 2^31"
            )
        pool = BlockPool(num_blocks)
        self._require_servable(num_blocks - 1)
        self._available = num_blocks - 1
        longest = int(self._longest_sequence().max(initial=1))
        self.max_blocks = -(-longest // min(group.block_size for group in (*target, *draft)))

        def tables(groups: Sequence[WindowGroup]) -> list[BlockTable]:
            return [
                BlockTable(pool, max_batch, self.max_blocks, group.block_size, group.window)
                for group in groups
            ]

        self._target, self._draft = tables(target), tables(draft)
        self._next = 0  # first request of the trace that was not admitted
        self._ids = np.empty(0, dtype=np.int64)  # running requests, oldest first
        self._rows = np.empty(0, dtype=np.int64)  # and the row of each in the block tables
        self._free_rows = list(range(max_batch - 1, -1, -1))

    def __iter__(self) -> Iterator[DecodeStep]:
        now = 0.0
        while True:
            self._admit(now)
            if len(self._ids):
                yield self._step(now)
                now += self._step_s
            elif self._next < len(self._arrival_s):
                now = max(now, float(self._arrival_s[self._next]))
            else:
                return

    def _admit(self, now: float) -> None:
        """Admit waiting requests in order until one does not fit: no later one overtakes it."""
        admitted: list[int] = []
        while self._next < len(self._arrival_s) and self._arrival_s[self._next] <= now:
            request = self._next
            if self._wanted[request] <= 1:  # the prefill made its only token
                self.generated[request] = self._wanted[request]
                self.num_served += 1
            elif len(admitted) < len(self._free_rows) and self._reserved[request] <= self._available:
                self.generated[request] = 1
                self._available -= int(self._reserved[request])
                admitted.append(request)
            else:
                break
            self._next += 1
        if admitted:
            rows = [self._free_rows.pop() for _ in admitted]
            self._ids = np.concatenate([self._ids, np.array(admitted, dtype=np.int64)])
            self._rows = np.concatenate([self._rows, np.array(rows, dtype=np.int64)])

    def _step(self, now: float) -> DecodeStep:
        ids, rows, k = self._ids, self._rows, self._draft_tokens
        # The last token's own KV is not in the cache yet: its row writes it.
        cached = self._context[ids] + self.generated[ids] - 1
        for table in (*self._target, *self._draft):
            table.advance(rows, cached, self._lookahead)
        accepted = self._acceptance.draw(self._rng, len(ids))
        kept = np.minimum(accepted, self._wanted[ids] - self.generated[ids])
        step = DecodeStep(
            time_s=now,
            target=self._inputs(self._target, cached, 1 + k),
            draft=self._inputs(self._draft, cached + kept, k),
            request_ids=ids,
            accepted=accepted,
            kept=kept,
        )
        self.generated[ids] += kept
        self._retire(self.generated[ids] == self._wanted[ids])
        return step

    def _inputs(self, tables: list[BlockTable], cached: NDArray[np.int64], query_len: int) -> StepInputs:
        """``query_len`` rows a request after its ``cached`` tokens, padded to a captured size."""
        n = len(cached)
        padded = int(self._sizes[np.searchsorted(self._sizes, n)])
        num_tokens = padded * query_len
        seq_lens = np.zeros(padded, dtype=np.int32)
        seq_lens[:n] = cached + query_len
        positions = cached[:, None] + np.arange(query_len)
        block_tables = np.full((len(tables), padded, self.max_blocks), NULL_BLOCK, dtype=np.int32)
        slot_mappings = np.full((len(tables), num_tokens), -1, dtype=np.int64)
        for group, table in enumerate(tables):
            block_tables[group, :n] = table.table[self._rows]
            slot_mappings[group, : n * query_len] = table.slots(self._rows, positions).ravel()
        query_start_loc = np.minimum(np.arange(padded + 1, dtype=np.int32), n) * np.int32(query_len)
        return StepInputs(query_start_loc, seq_lens, num_tokens, block_tables, slot_mappings)

    def _retire(self, finished: NDArray[np.bool_]) -> None:
        if not finished.any():
            return
        rows = self._rows[finished]
        for table in (*self._target, *self._draft):
            table.release(rows)
        self._available += int(self._reserved[self._ids[finished]].sum())
        self._free_rows += rows.tolist()
        self.num_served += len(rows)
        self._ids, self._rows = self._ids[~finished], self._rows[~finished]

    @property
    def _lookahead(self) -> int:
        """Positions past the cached tokens that a step may write: target rows, all kept, and a draft."""
        return 1 + 2 * self._draft_tokens

    def _longest_sequence(self) -> NDArray[np.int64]:
        """Tokens that each request's tables must cover in its last step: [N]."""
        cached: NDArray[np.int64] = self._context + np.maximum(self._wanted - 2, 0)
        return cached + self._lookahead

    def _blocks_to_reserve(self, groups: Sequence[WindowGroup]) -> NDArray[np.int64]:
        """The most blocks each request can hold at once, in all groups together: [N] int64."""
        longest = self._longest_sequence()
        reserved = np.zeros_like(longest)
        for group in groups:
            live = max_live_blocks(group.window - 1 + self._lookahead, group.block_size)
            reserved += np.minimum(-(-longest // group.block_size), live)
        return reserved

    def _require_servable(self, num_blocks: int) -> None:
        longest = self._longest_sequence()
        for request in np.flatnonzero((longest > _MAX_MODEL_LEN) | (self._reserved > num_blocks))[:1]:
            raise ValueError(
                f"request {request} of the trace can never be served: its sequence of {longest[request]} "
                f"tokens (a step's draft included, {_MAX_MODEL_LEN} at most) needs "
                f"{self._reserved[request]} blocks at once, and the pool has {num_blocks}"
            )
