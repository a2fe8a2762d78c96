"""The running sum over the programs of one launch, without a second launch and without a barrier.

Each program publishes its count and adds up the counts before it: the decoupled scan of Merrill and Garland
(NVIDIA NVR-2016-002) in two levels, since a thousand programs that poll each other's words get in each
other's way. A program's count goes into a word of its own, which the rest of its team reads, and is added to
its team's word, which all later teams read. So a program polls its own team and one word for each team before
it, and nothing is chained.

A count and what tells that it is there travel in one 64-bit word, so no memory ordering is needed. A program
waits only for earlier ones, which the hardware starts first, so none waits for a program that cannot run.

The words outlive the launch and need no clearing between launches, so a graph may replay them: a program's
word says which generation it is of, and team words alternate between two sets. The last program, when it
has seen all others, clears the other set and starts the next generation. What must hold is that launches on
the same words do not overlap.

Layout, int64: [generation, even team words [max_teams], odd team words [max_teams], program words]; see
:func:`num_words`. A program's word is ``generation << 32 | count``, a team's ``programs in it << 32 | sum``.
"""

from __future__ import annotations

from onelaunch._triton import tl, triton

TEAM = tl.constexpr(64)

# Generations are 1 to this one, then 1 again: a server of a thousand builds a second gets there in a month.
# It is even, so that team words keep alternating; and 0 stays the mark of a word never written.
LAST_GENERATION = tl.constexpr(2**31 - 2)


def teams_of(programs: int) -> int:
    """Teams of so many programs."""
    return -(-programs // int(TEAM.value))


def num_words(max_teams: int) -> int:
    """Words of a scan of up to ``max_teams`` teams, zeroed once."""
    return 1 + max_teams * (2 + int(TEAM.value))


@triton.jit
def _team_words(words_ptr, generation, max_teams):
    return words_ptr + 1 + (generation & 1) * max_teams


@triton.jit
def _load_words(pointers, mask, words_ptr, AMD: tl.constexpr):
    """The words as they are now, as they change during the launch; any word where masked."""
    if AMD:
        # Triton makes a buffer load of a volatile one there, which the compiler takes out of a loop. This one
        # stays where it is, and reads past the caches of the compute unit and the die (scope: system).
        load: tl.constexpr = "global_load_dwordx2 $0, $1, off sc0 sc1\ns_waitcnt vmcnt(0)"
        address = tl.where(mask, pointers, words_ptr).to(tl.int64)
        words = tl.inline_asm_elementwise(load, "=v,v", [address], tl.int64, is_pure=False, pack=1)
    else:
        words = tl.load(pointers, mask=mask, other=0, volatile=True)
    return words


@triton.jit
def _polled(pointers, mask, complete, words_ptr, AMD: tl.constexpr):
    """The counts behind ``pointers``, once the upper half of every word is ``complete``; 0 where masked."""
    words = _load_words(pointers, mask, words_ptr, AMD)
    while tl.max((mask & ((words >> 32) != complete)).to(tl.int32)) != 0:
        words = _load_words(pointers, mask, words_ptr, AMD)
    if AMD:
        words = tl.where(mask, words, 0)
    return (words & 0xFFFFFFFF).to(tl.int32)


@triton.jit
def publish(words_ptr, program, programs, count, max_teams, ONE_TEAM: tl.constexpr, AMD: tl.constexpr):
    """Publish the program's ``count``; returns this launch's generation."""
    here = tl.arange(0, 1)
    current = tl.max(_load_words(words_ptr + here, here == 0, words_ptr, AMD))
    generation = tl.where(current == LAST_GENERATION, 1, current + 1)
    count = count.to(tl.int64)
    word_ptr = words_ptr + 1 + 2 * max_teams + program
    tl.atomic_xchg(word_ptr + here, (generation << 32) | count, sem="relaxed")
    if not ONE_TEAM:
        team = program // TEAM
        if team < (programs - 1) // TEAM:
            team_ptr = _team_words(words_ptr, generation, max_teams) + team
            tl.atomic_add(team_ptr + here, (1 << 32) + count, sem="relaxed")
    return generation


@triton.jit
def sum_before(
    words_ptr, program, programs, generation, max_teams, ONE_TEAM: tl.constexpr, AMD: tl.constexpr
):
    """The counts of all earlier programs, added up. ``ONE_TEAM``: the launch never has more than one team."""
    if ONE_TEAM:
        mate = tl.arange(0, TEAM)
        total = _polled(words_ptr + 1 + 2 * max_teams + mate, mate < program, generation, words_ptr, AMD)
    else:
        team = program // TEAM
        lane = tl.arange(0, 2 * TEAM)  # a mate each, then a team each
        is_mate = lane < TEAM
        mates_ptr = words_ptr + 1 + 2 * max_teams + team * TEAM
        teams_ptr = _team_words(words_ptr, generation, max_teams)
        total = tl.zeros([2 * TEAM], tl.int32)
        for first in tl.range(0, tl.maximum(team, 1), TEAM):
            other = first + lane - TEAM
            pointers = tl.where(is_mate, mates_ptr + lane, teams_ptr + other)
            earlier = tl.where(is_mate, (lane < program % TEAM) & (first == 0), other < team)
            complete = tl.where(is_mate, generation, TEAM)
            total += _polled(pointers, earlier, complete, words_ptr, AMD)

    if program == programs - 1:
        other_set = _team_words(words_ptr, generation + 1, max_teams)
        for first in tl.range(0, max_teams, TEAM):
            cleared = first + tl.arange(0, TEAM)
            tl.store(other_set + cleared, tl.zeros([TEAM], tl.int64), mask=cleared < max_teams)
        tl.store(words_ptr, generation)
    return tl.sum(total)
