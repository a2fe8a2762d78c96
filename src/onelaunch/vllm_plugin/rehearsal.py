"""Random decode batches, built by the kernel and by vLLM's own code before the first real one is."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import torch

from onelaunch.proof.cases import INT32_MAX, Blocks, Case, GroupCase, Request
from onelaunch.vllm_plugin import guard, settings
from onelaunch.vllm_plugin.plan import Plan
from onelaunch.vllm_plugin.run import Run
from onelaunch.vllm_plugin.window import Member

_MOST_ROWS = 4096  # past every launch shape that a decode batch is built with
_LONGEST = 131_072  # tokens of a sequence


def rehearse(plan: Plan, members: Sequence[Member], cm: Any) -> None:
    """Compare a few batches, from one row to as many as a decode step may have; a difference disarms.

    Args:
        cm: vLLM's ``CommonAttentionMetadata`` of any batch, for what a batch does not decide.
    """
    assert plan.kernel is not None
    threshold = members[0].builder.decode_threshold
    most = min(plan.kernel.max_tokens, plan.kernel.max_requests * threshold, _MOST_ROWS)
    count = settings.verify_builds()
    if plan.token_map.device.type == "cpu":  # in the interpreter: as much as anyone would wait for
        most, count = min(most, 8), min(count, 2)
    for number in range(count):
        case = _case(plan, number, round(most ** ((number + 1) / count)), threshold)
        with torch.inference_mode():  # as vLLM runs
            _build_both(plan, members, cm, case)
        if guard.disarmed():
            return
    plan.rehearsed = True


def _build_both(plan: Plan, members: Sequence[Member], cm: Any, case: Case) -> None:
    device = plan.token_map.device
    batch, inputs = case.batch(device), case.inputs(device)
    acting = [
        Member(member.owner, member.builder, given, member.causal)
        for member, given in zip(members, inputs.values(), strict=True)
    ]
    run = Run(plan, "rehearsal", batch, acting, case.num_tokens, compares=True)
    token_map = None
    for index, member in enumerate(acting):
        mine = cm.replace(
            query_start_loc=batch.query_start_loc,
            query_start_loc_cpu=batch.query_start_loc.cpu(),
            seq_lens=batch.seq_lens,
            seq_lens_cpu_upper_bound=batch.seq_lens.cpu(),
            num_reqs=len(case.requests),
            num_actual_tokens=case.num_tokens,
            max_query_len=max(request.query_len for request in case.requests),
            max_seq_len=_LONGEST,
            block_table_tensor=member.inputs.block_table,
            slot_mapping=member.inputs.slot_mapping,
            causal=member.causal,
            positions=None,
            is_prefilling=None,
            mm_req_doc_ranges=None,
            _num_computed_tokens_cache=None,
            _token_to_req_indices_cache=token_map,
        )
        expected = member.owner.build(member.builder, 0, mine, False, batch.replay_start)
        run.verify_build(index, mine, batch.replay_start, expected)
        token_map = mine._token_to_req_indices_cache


def _case(plan: Plan, seed: int, rows: int, most_rows: int) -> Case:
    """A batch of about ``rows`` rows, each request with up to ``most_rows``, then padding of both kinds."""
    assert plan.kernel is not None
    rng = random.Random(f"rehearsal {seed}")
    counts: list[int] = []
    while sum(counts) < rows and len(counts) < plan.kernel.max_requests:
        count = most_rows if rng.random() < 0.5 else rng.randint(1, most_rows)
        counts.append(min(count, rows - sum(counts)))
    padding_requests = rng.randint(0, min(plan.kernel.max_requests - len(counts), 3))
    padding_rows = rng.randint(0, min(plan.kernel.max_tokens - sum(counts), 9))
    requests = (*(_request(rng, count) for count in counts), *(Request(0, 0),) * padding_requests)
    return Case(
        requests=requests,
        groups=tuple(_group_case(rng, group, requests, sum(counts)) for group in plan.kernel.groups),
        num_tokens=sum(counts) + padding_rows,
        max_tokens=plan.kernel.max_tokens,
        max_requests=plan.kernel.max_requests,
    )


def _request(rng: random.Random, count: int) -> Request:
    before = rng.choice((0, rng.randint(0, 400), rng.randint(0, _LONGEST - count)))  # tokens
    # A row is never below its request's replay start: vLLM replays what comes before a row, if anything.
    return Request(count, before + count, rng.choice((None, rng.randint(0, before))))


def _group_case(rng: random.Random, group: Any, requests: Sequence[Request], rows: int) -> GroupCase:
    size = group.block_size
    columns = -(-max(request.seq_len for request in requests) // size)
    layout = GroupCase(group, columns, ())
    limit = (INT32_MAX + 1) // size

    def block() -> int:
        return rng.choice((0, -1)) if rng.random() < 0.05 else rng.randrange(limit)

    def listed(request: Request) -> Blocks:
        start, end = layout.span(request)
        return Blocks(start // size, tuple(block() for _ in range(start // size, -(-end // size))))

    return GroupCase(
        group,
        columns,
        tables=tuple(listed(request) for request in requests),
        # Rows in the middle without a slot: a draft block that runs into a block that was freed.
        invalid_rows=tuple(row for row in range(rows) if rng.random() < 0.1),
    )
