"""The running sum over the programs of one launch, without a second launch and without a barrier.

Program i publishes its count in a 64-bit word, (generation, count), and adds up the words of the programs before
it: the decoupled scan of Merrill and Garland (NVIDIA NVR-2016-002) with one look back. Generation and
count travel in the same word, so no memory ordering is needed. A program waits only for earlier ones,
which the hardware starts first, so none waits for a program that cannot run.

The words outlive the launch. The last program starts the next generation when it has seen all others,
so nothing has to be cleared between launches and a graph may replay them. What must hold is that launches
on the same words do not overlap.
"""

from __future__ import annotations

from onelaunch._triton import tl, triton


@triton.jit
def publish(words_ptr, program, count):
    """Publish the program's ``count``; words_ptr: [1 + programs] int64, the generation first."""
    # Volatile, as all accesses to the words: they change during the launch.
    generation = tl.load(words_ptr + tl.arange(0, 1), volatile=True) + 1
    word = (generation << 32) | count.to(tl.int64)
    tl.atomic_xchg(words_ptr + 1 + program + tl.arange(0, 1), word, sem="relaxed")
    return tl.max(generation)


@triton.jit
def sum_before(words_ptr, program, programs, generation, LOOK_BACK: tl.constexpr):
    """The counts of all earlier programs, added up."""
    total = tl.zeros([LOOK_BACK], tl.int64)
    for first in tl.range(0, program, LOOK_BACK):
        other = first + tl.arange(0, LOOK_BACK)
        earlier = other < program
        words = tl.load(words_ptr + 1 + other, mask=earlier, other=0, volatile=True)
        while tl.max((earlier & ((words >> 32) != generation)).to(tl.int32)) != 0:
            words = tl.load(words_ptr + 1 + other, mask=earlier, other=0, volatile=True)
        total += words & 0xFFFFFFFF
    if program == programs - 1:
        tl.store(words_ptr, generation)
    return tl.sum(total).to(tl.int32)
