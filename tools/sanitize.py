"""Builds for compute-sanitizer to watch: the one-launch kernels on small and large, even and ragged batches.

    PYTORCH_NO_CUDA_MEMORY_CACHING=1 compute-sanitizer --tool memcheck --padding 64 python tools/sanitize.py
    compute-sanitizer --tool racecheck python tools/sanitize.py
    compute-sanitizer --tool initcheck python tools/sanitize.py

Without the caching allocator, each tensor is an allocation of its own: an overrun lands outside of one.
"""

from __future__ import annotations

import torch

from onelaunch import StepBuilder, pack_topk
from onelaunch.proof.random_cases import random_case, setups
from onelaunch.proof.topk_cases import random_topk_case

SETUPS = (0, 2, 4)  # targets; targets and drafts; groups that make their slots
ROWS = (0, 7, 61, 130, 1100, 2500)


def main() -> None:
    device = torch.device("cuda", torch.cuda.current_device())
    builds = packs = 0
    for setup in (setups(large=True)[i] for i in SETUPS):
        builder = StepBuilder(
            setup.groups,
            max_tokens=setup.max_tokens,
            max_requests=setup.max_requests,
            device=device,
            backend="kernel",
        )
        for rows in ROWS:
            if rows <= setup.max_tokens:
                case = random_case(rows, setup, num_tokens=rows)
                builder.build(case.batch(device), case.inputs(device))
                builds += 1
    for seed in range(8):
        pack_topk(*random_topk_case(seed, large=True).arguments(device), backend="kernel")
        packs += 1
    torch.cuda.synchronize()
    print(f"{builds} builds and {packs} top-k packs done")


if __name__ == "__main__":
    main()
