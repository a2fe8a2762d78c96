"""Who runs in the next step, and with how many rows: continuous batching, chunked prefill, preemption."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from onelaunch.engine.cache.tables import BlockTables
from onelaunch.engine.request import Request


@dataclass(frozen=True, slots=True)
class Scheduled:
    """A request's part of a step.

    Attributes:
        num_rows: rows of it: a chunk of its prompt; or its last token and ``num_drafts`` draft tokens.
        num_drafts: draft tokens to verify, at most: adaptive verification may take fewer.
        samples: the step gives it a token: it decodes, or its prompt is complete.
    """

    request: Request
    num_rows: int
    num_drafts: int
    samples: bool


def split_decodes_and_prefills(batch: Sequence[Scheduled]) -> tuple[list[Scheduled], list[Scheduled]]:
    """The one place that tells a decode from a prefill, for every user of the split.

    By what the request has done, not by its number of rows: a prompt, or what the prefix cache left of one,
    may be as short as a decode, and its rows then hold prompt tokens and not the draft's.
    """
    decodes = [scheduled for scheduled in batch if scheduled.request.decoding]
    prefills = [scheduled for scheduled in batch if not scheduled.request.decoding]
    return decodes, prefills


class Scheduler:
    """First in, first out, within limits. A request that has begun goes on before one that waits.

    Args:
        tables: blocks of all requests.
        max_requests: running at once.
        max_rows: of one step.
        max_tokens: longest sequence.
        num_draft_tokens: k, or 0.
    """

    def __init__(
        self, tables: BlockTables, max_requests: int, max_rows: int, max_tokens: int, num_draft_tokens: int
    ) -> None:
        self.waiting: deque[Request] = deque()
        self.running: list[Request] = []
        self.num_preemptions = 0
        self.num_prefix_queries = self.num_prefix_hits = 0
        self._tables = tables
        self._max_rows = max_rows
        self._max_tokens = max_tokens
        self._num_draft_tokens = num_draft_tokens
        self._free_rows = list(range(max_requests - 1, -1, -1))

    def add(self, request: Request) -> None:
        self.waiting.append(request)

    def schedule(self) -> list[Scheduled]:
        """The next step's requests: decodes, then prompts that end in it, then those that go on after it.

        When blocks run out, the latest request loses its own and waits at the front of the queue, to be
        computed again from its prompt and output.
        """
        chosen: dict[Request, Scheduled] = {}
        left = self._max_rows
        preempted = self.num_preemptions
        for request in sorted(self.running, key=lambda request: not request.decoding):
            scheduled = None if request.row is None else self._rows_of(request, left)
            if scheduled is None:  # preempted for another, or no rows are left
                continue
            while not self._reserve(scheduled):
                victim = self.running[-1]
                self._preempt(victim)
                gone = chosen.pop(victim, None)
                left += gone.num_rows if gone is not None else 0
                if victim is request:
                    break
            else:
                chosen[request] = scheduled
                left -= scheduled.num_rows
        batch = list(chosen.values())
        if self.num_preemptions == preempted:
            batch += self._admit(left)
        decodes, prefills = split_decodes_and_prefills(batch)
        return decodes + sorted(prefills, key=lambda scheduled: not scheduled.samples)

    def _admit(self, left: int) -> list[Scheduled]:
        admitted = []
        while self.waiting and self._free_rows and left > 0:
            request = self.waiting[0]
            row = self._free_rows[-1]
            use_prefix = request.params.prompt_logprobs is None
            request.num_computed = self._tables.start(
                row, request.tokens[: request.num_to_prefill], request.cache_salt, use_prefix=use_prefix
            )
            request.row = row
            scheduled = self._rows_of(request, left)
            if scheduled is None or not self._reserve(scheduled):
                self._tables.release(row)
                request.row, request.num_computed = None, 0
                break
            self.waiting.popleft()
            self._free_rows.pop()
            self.running.append(request)
            if request.num_cached is None:
                request.num_cached = request.num_computed
                if use_prefix and self._tables.prefix_caching:
                    self.num_prefix_queries += request.num_to_prefill
                    self.num_prefix_hits += request.num_computed
            admitted.append(scheduled)
            left -= scheduled.num_rows
        return admitted

    def _rows_of(self, request: Request, left: int) -> Scheduled | None:
        """What a request would do with ``left`` rows; None if nothing."""
        if not request.decoding:
            pending = request.num_to_prefill - request.num_computed
            num_rows = min(pending, left)
            return Scheduled(request, num_rows, 0, num_rows == pending) if num_rows > 0 else None
        # A draft past the longest sequence, or past the last token wanted, could never be accepted.
        wanted = request.params.max_tokens - request.num_output - 1
        room = self._max_tokens - len(request.tokens) - 1
        num_drafts = max(min(self._num_draft_tokens, wanted, room), 0)
        return Scheduled(request, 1 + num_drafts, num_drafts, True) if 1 + num_drafts <= left else None

    def _reserve(self, scheduled: Scheduled) -> bool:
        request = scheduled.request
        assert request.row is not None
        return self._tables.reserve(
            request.row, request.num_computed, request.num_computed + scheduled.num_rows
        )

    def _preempt(self, request: Request) -> None:
        self._let_go(request)
        request.num_computed, request.decoding = 0, False
        self.waiting.appendleft(request)
        self.num_preemptions += 1

    def finish(self, request: Request) -> None:
        """Forget a request, running or waiting, and free its blocks."""
        if request.row is None:
            self.waiting.remove(request)
        else:
            self._let_go(request)

    def _let_go(self, request: Request) -> None:
        assert request.row is not None
        self.running.remove(request)
        self._tables.release(request.row)
        self._free_rows.append(request.row)
        request.row = None
