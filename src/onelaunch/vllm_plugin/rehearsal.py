"""Random decode batches and draft updates, compared with vLLM's own before the first real one is built."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import torch

from onelaunch.batch import DecodeBatch, GroupInputs
from onelaunch.proof.cases import INT32_MAX, Blocks, Case, GroupCase, Request
from onelaunch.vllm_plugin import guard, settings, window
from onelaunch.vllm_plugin.plan import Kind, Plan
from onelaunch.vllm_plugin.run import Run
from onelaunch.vllm_plugin.window import Member

_MOST_ROWS = 4096  # of requests: a few thousand show all that a row can meet
_LONGEST = 131_072  # tokens of a sequence
_STEPS = 2  # that a batch advances by


def rehearse(plan: Plan, members: Sequence[Member], cm: Any) -> None:
    """Compare batches from one row to as many as a decode step may have. A difference disarms.

    Each is followed by a draft update, where vLLM makes those.

    Args:
        cm: vLLM's ``CommonAttentionMetadata`` of any batch, for what a batch does not decide.

    Raises:
        ValueError: a batch is refused, by the library or by vLLM.
    """
    assert plan.kernel is not None
    updates = all(
        getattr(member.builder, "supports_draft_decode_metadata_update", False) for member in members
    )
    threshold = members[0].builder.decode_threshold
    most = min(plan.kernel.max_tokens, plan.kernel.max_requests * threshold, _MOST_ROWS)
    count = settings.verify_builds()
    if plan.token_map.device.type == "cpu":  # in the interpreter: as much as anyone would wait for
        most, count = min(most, 8), min(count, 2)
    for number, slots in enumerate(sizes(plan.tile_ends, most, count)):
        case = _case(plan, number, most, slots, threshold)
        with torch.inference_mode():  # as vLLM runs
            _compare(plan, members, cm, case, updates, pads_slots_alone=number % 2 == 1 and slots <= most)
        if guard.disarmed():
            return
    plan.rehearsed = frozenset(("build", "update") if updates else ("build",))


def sizes(tile_ends: Sequence[int], most: int, count: int) -> list[int]:
    """Slots of each batch: from 1 to ``most``, and one for each launch shape that these leave out."""
    chosen = [round(most ** ((number + 1) / count)) for number in range(count)]
    first = 1
    for end in tile_ends:
        if not any(first <= slots <= end for slots in chosen):
            chosen.append(first)
        first = end + 1
    return chosen


def _compare(
    plan: Plan, members: Sequence[Member], cm: Any, case: Case, updates: bool, *, pads_slots_alone: bool
) -> None:
    """A build both ways, then a draft update of what it returned, bound as those of the engine are."""
    device = plan.token_map.device
    batch, inputs = case.batch(device), list(case.inputs(device).values())
    rows = case.num_rows if pads_slots_alone else case.num_tokens
    commons = [
        cm.replace(
            query_start_loc=batch.query_start_loc,
            query_start_loc_cpu=batch.query_start_loc.cpu(),
            seq_lens=batch.seq_lens,
            seq_lens_cpu_upper_bound=batch.seq_lens.cpu(),
            num_reqs=len(case.requests),
            num_actual_tokens=rows,
            max_query_len=max(request.query_len for request in case.requests),
            max_seq_len=_LONGEST,
            block_table_tensor=given.block_table,
            slot_mapping=given.slot_mapping,
            causal=member.causal,
            positions=None,
            is_prefilling=None,
            mm_req_doc_ranges=None,
            _num_computed_tokens_cache=None,
            _token_to_req_indices_cache=None,
        )
        for member, given in zip(members, inputs, strict=True)
    ]
    found = [
        window.decode_build(member.owner, member.builder, mine, batch.replay_start)
        for member, mine in zip(members, commons, strict=True)
    ]
    _advance(case, batch, inputs)
    run = _launch(plan, "build", found, rows)
    token_map = None
    built = []
    for index, (member, mine) in enumerate(zip(members, commons, strict=True)):
        mine._token_to_req_indices_cache = token_map
        metadata = member.owner.build(member.builder, 0, mine, False, batch.replay_start)
        run.verify_build(index, mine, batch.replay_start, metadata)
        token_map = mine._token_to_req_indices_cache
        built.append(metadata)
    if not updates or guard.disarmed():
        return
    found = [
        window.draft_update(member.owner, member.builder, metadata)
        for member, metadata in zip(members, built, strict=True)
    ]
    _advance(case, batch, inputs)
    run = _launch(plan, "update", found, rows)
    for index, (member, metadata) in enumerate(zip(members, built, strict=True)):
        member.owner.update(member.builder, metadata)
        run.verify_update(index)


def _launch(plan: Plan, kind: Kind, found: Sequence[tuple[DecodeBatch, Member] | None], rows: int) -> Run:
    bound = [one for one in found if one is not None]
    if len(bound) < len(found):
        raise ValueError(f"vLLM has its own {kind} for a random decode batch")
    members = [member for _, member in bound]
    return Run(plan, kind, bound[0][0], members, rows, compares=True, rehearses=True)


def _advance(case: Case, batch: DecodeBatch, inputs: Sequence[GroupInputs]) -> None:
    """The next step, in the same tensors: a launch that was bound to copies of them is wrong then."""
    rows = case.num_rows
    batch.seq_lens[: sum(request.query_len > 0 for request in case.requests)] += 1
    for given in inputs:
        assert given.slot_mapping is not None
        given.slot_mapping[:rows] = given.slot_mapping[:rows].flip(0)
        given.block_table.sub_((given.block_table > 0).to(torch.int32))


def _case(plan: Plan, seed: int, most: int, slots: int, most_rows: int) -> Case:
    """A batch of so many slots, at most ``most`` of them rows of requests, each with up to ``most_rows``."""
    assert plan.kernel is not None
    rng = random.Random(f"rehearsal {seed}")
    rows = min(slots - rng.randint(0, min(slots - 1, 9)), most)
    counts: list[int] = []
    while rows > sum(counts):
        left, room = rows - sum(counts), plan.kernel.max_requests - len(counts)
        count = most_rows if rng.random() < 0.5 else rng.randint(1, most_rows)
        counts.append(min(max(count, left - most_rows * (room - 1)), left))
    padding_requests = rng.randint(0, min(plan.kernel.max_requests - len(counts), 3))
    requests = (*(_request(rng, count) for count in counts), *(Request(0, 0),) * padding_requests)
    return Case(
        requests=requests,
        groups=tuple(_group_case(rng, group, requests, sum(counts)) for group in plan.kernel.groups),
        num_tokens=slots,
        max_tokens=plan.kernel.max_tokens,
        max_requests=plan.kernel.max_requests,
    )


def _request(rng: random.Random, count: int) -> Request:
    before = rng.choice((0, rng.randint(0, 400), rng.randint(0, _LONGEST - count)))  # tokens
    # A row is never below its request's replay start: vLLM replays what comes before a row, if anything.
    return Request(count, before + count, rng.choice((None, rng.randint(0, before))))


def _group_case(rng: random.Random, group: Any, requests: Sequence[Request], rows: int) -> GroupCase:
    size = group.block_size
    columns = -(-max(request.seq_len + _STEPS for request in requests) // size)
    layout = GroupCase(group, columns, ())
    limit = (INT32_MAX + 1) // size

    def block() -> int:
        return rng.choice((0, -1)) if rng.random() < 0.05 else rng.randrange(limit)

    def listed(request: Request) -> Blocks:
        start, end = layout.span(request)
        end += _STEPS * (end > start)
        return Blocks(start // size, tuple(block() for _ in range(start // size, -(-end // size))))

    return GroupCase(
        group,
        columns,
        tables=tuple(listed(request) for request in requests),
        # Rows in the middle without a slot: a draft block that runs into a block that was freed.
        invalid_rows=tuple(row for row in range(rows) if rng.random() < 0.1),
    )
