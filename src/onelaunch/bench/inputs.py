"""What the benchmark builds: a decode step of long contexts, and the bytes that it must move."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from onelaunch.batch import DecodeBatch, GroupInputs
from onelaunch.groups import WindowGroup

ROWS = (1, 7, 14, 28, 32, 48, 112, 448, 1024, 4096)
MAX_TOKENS = 16_384
CONTEXT = 32_768  # tokens of a sequence, less a few
QUERY_LEN = 7  # a token and a 6-token draft
WINDOW, BLOCK_SIZE, DRAFT_TOKENS = 128, 64, 6
NUM_TARGET_GROUPS, NUM_DRAFT_GROUPS = 4, 3


def window_groups(*, ragged: bool) -> tuple[tuple[WindowGroup, ...], tuple[WindowGroup, ...]]:
    """The groups of a step's two builds: the target's, and the draft's."""
    target = tuple(
        WindowGroup(f"swa.{i}", WINDOW, BLOCK_SIZE, ragged=ragged) for i in range(NUM_TARGET_GROUPS)
    )
    draft = tuple(
        WindowGroup(f"draft.{i}", WINDOW, BLOCK_SIZE, causal=False, draft_tokens=DRAFT_TOKENS, ragged=ragged)
        for i in range(NUM_DRAFT_GROUPS)
    )
    return target, draft


@dataclass(frozen=True, slots=True)
class StepInputs:
    """A step's inputs, which all arms share: both builds have the same requests and rows.

    Attributes:
        batch: the requests and rows.
        inputs: of every group of both builds, by name.
        seq_lens, query_lens: of the requests, on the host.
    """

    batch: DecodeBatch
    inputs: dict[str, GroupInputs]
    seq_lens: tuple[int, ...]
    query_lens: tuple[int, ...]

    @property
    def num_requests(self) -> int:
        return len(self.seq_lens)


def step_inputs(rows: int, device: torch.device, *, seed: int = 0, context: int = CONTEXT) -> StepInputs:
    """A step of ``rows`` rows: requests of 7, the last one of what is left."""
    rng = random.Random(seed)
    query_lens = [QUERY_LEN] * (rows // QUERY_LEN) + [rows % QUERY_LEN] * (rows % QUERY_LEN > 0)
    seq_lens = [context - rng.randrange(BLOCK_SIZE * 4) for _ in query_lens]
    starts = torch.tensor([0, *query_lens]).cumsum(0)

    def int32(values: torch.Tensor) -> torch.Tensor:
        return values.to(device=device, dtype=torch.int32)

    generator = torch.Generator().manual_seed(seed)
    blocks = -(-context // BLOCK_SIZE)
    inputs = {}
    for group in (group for groups in window_groups(ragged=True) for group in groups):
        table = torch.randint(1, 1_000_000, (len(query_lens), blocks), generator=generator)
        slots = torch.randint(0, 1_000_000, (rows,), generator=generator)
        inputs[group.name] = GroupInputs(int32(table), slots.to(device))
    batch = DecodeBatch(int32(starts), int32(torch.tensor(seq_lens)), rows)
    return StepInputs(batch, inputs, tuple(seq_lens), tuple(query_lens))


def bytes_moved(step: StepInputs, groups: Sequence[WindowGroup], *, max_tokens: int = MAX_TOKENS) -> int:
    """Bytes that one build of ``groups`` must move: each output written once, each input needed read once.

    For inputs of :func:`step_inputs`: every row is valid and every block exists.
    """
    rows, requests = step.batch.num_tokens, step.num_requests
    total = 4 * rows + 4 * (requests + 1) + 4 * requests  # token map; query_start_loc, seq_lens
    for group in groups:
        kept = blocks = 0
        for seq_len, query_len in zip(step.seq_lens, step.query_lens, strict=True):
            prefix = seq_len - query_len
            if group.causal:
                start = max(prefix - (group.window - 1), 0)
                kept += sum(min(position + 1, group.window) for position in range(prefix, seq_len))
            else:
                start = max(prefix - group.window, 0)
                kept += query_len * min(seq_len - start, group.width)
            blocks += (seq_len - 1) // group.block_size - start // group.block_size + 1
        total += rows * (1 + 4 * group.width) + 4 * max_tokens  # is_valid, indices; lengths with their tail
        total += 8 * rows + 4 * blocks  # slot_mapping; block table entries
        if group.ragged:
            total += 4 * kept + 4 * (rows + 1)
    return total
