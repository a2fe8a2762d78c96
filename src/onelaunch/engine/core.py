"""The engine: requests in, tokens out, a step at a time. One thread calls it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onelaunch.engine.attention import READER_KERNELS
from onelaunch.engine.cache.groups import cache_groups
from onelaunch.engine.cache.tables import BlockTables
from onelaunch.engine.config import EngineConfig
from onelaunch.engine.model.weights import load_model, untrained_model
from onelaunch.engine.outputs import EngineStats, FinishReason, RequestOutput
from onelaunch.engine.request import Request
from onelaunch.engine.runner.runner import Runner, StepResult
from onelaunch.engine.sampling_params import SamplingParams
from onelaunch.engine.scheduler import Scheduled, Scheduler
from onelaunch.engine.tokenizer import Tokenizer


class EngineCore:
    """Serves requests with continuous batching and, by default, DSpark drafts.

    Attributes:
        config: as given.
        tokenizer: of the model.
        stats: counters and gauges.

    Raises:
        OSError, ValueError: the checkpoint can't be read or does not fit.
    """

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        self.tokenizer = Tokenizer.load(config.model_path, config.model)
        if config.model_path is None:
            model = untrained_model(config.model, config.seed, config.device)
        else:
            model = load_model(config.model_path, config.device)
        groups = cache_groups(config.model, config.block_size, config.num_draft_tokens)
        self._tables = BlockTables(
            groups,
            config.block_size,
            config.num_blocks,
            config.max_num_seqs,
            config.max_model_len,
            prefix_caching=config.enable_prefix_caching,
        )
        self._scheduler = Scheduler(
            self._tables,
            config.max_num_seqs,
            config.max_num_batched_tokens,
            config.max_model_len,
            config.num_draft_tokens,
        )
        self._runner = Runner(config, model, groups, self._tables)
        self._runner.warmup()
        self._requests: dict[str, Request] = {}
        self._seeds = np.random.default_rng(config.seed)
        self.stats = EngineStats(accepted_per_pos=[0] * config.num_draft_tokens)

    @property
    def metadata_path(self) -> tuple[str, str]:
        """How decode metadata is built, "kernel" or "reference", and why."""
        return self._runner.backend, self._runner.reason

    @property
    def launches(self) -> dict[str, int]:
        """Launches that built the last decode step's metadata, by kernel."""
        launched = self._runner.launches_per_step.items()
        return {kernel: count for kernel, count in launched if kernel not in READER_KERNELS}

    def has_unfinished(self) -> bool:
        return bool(self._requests)

    def add(
        self,
        request_id: str,
        prompt_token_ids: Sequence[int],
        params: SamplingParams,
        *,
        cache_salt: str | None = None,
    ) -> None:
        """Queue a request.

        Args:
            request_id: not one of a request that is still going on.
            prompt_token_ids: at least one, and fewer than the longest sequence has.
            cache_salt: it shares cached prefixes only with requests of the same salt.

        Raises:
            ValueError: an argument is out of range; nothing has been queued.
        """
        if request_id in self._requests:
            raise ValueError(
                f"request_id is {request_id!r}: it must not be one of a request that is going on"
            )
        longest = self.config.max_model_len - 1
        if not 1 <= len(prompt_token_ids) <= longest:
            raise ValueError(f"the prompt has {len(prompt_token_ids)} tokens: it must have 1 to {longest}")
        for token in prompt_token_ids:
            if not 0 <= token < self.config.model.vocab_size:
                raise ValueError(
                    f"the prompt has token {token}: it must be below {self.config.model.vocab_size}"
                )
        seed = params.seed if params.seed is not None else int(self._seeds.integers(2**63))
        request = Request(request_id, tuple(prompt_token_ids), params, seed, cache_salt)
        self._requests[request_id] = request
        self._scheduler.add(request)

    def abort(self, request_id: str) -> None:
        """Take a request back and free its blocks. One that has ended, or never was, is no error."""
        request = self._requests.pop(request_id, None)
        if request is not None:
            self._scheduler.finish(request)

    def step(self) -> list[RequestOutput]:
        """Run one step.

        Returns:
            what it added to each request that it added something to; empty when there is nothing to do.
        """
        batch = self._scheduler.schedule()
        outputs: list[RequestOutput] = []
        if batch:
            result = self._runner.step(batch)
            for place, scheduled in enumerate(batch):
                output = self._take(scheduled, place, result)
                if output is not None:
                    outputs.append(output)
        self._update_stats()
        return outputs

    def _take(self, scheduled: Scheduled, place: int, result: StepResult) -> RequestOutput | None:
        """Note what a step did for a request."""
        request = scheduled.request
        assert request.row is not None
        del request.prompt_logprobs_so_far[request.num_computed :]  # those of a prefill that was preempted
        request.prompt_logprobs_so_far += result.prompt_logprobs[place]
        if not request.decoding:
            request.num_computed += scheduled.num_rows
        elif scheduled.num_drafts:
            self._count_drafts(int(result.num_drafts[place]), int(result.num_accepted[place]))
        if not scheduled.samples:
            self._tables.commit(request.row, request.tokens, request.num_computed)
            return None
        if request.known_token is not None:  # it goes on where it was preempted
            request.decoding = True
            self._tables.commit(request.row, request.tokens, request.num_computed)
            return None
        if request.decoding:
            request.num_computed += 1 + int(result.num_accepted[place])
        else:
            self.stats.prompt_tokens += len(request.prompt_token_ids)
        sampled = [int(token) for token in result.token_ids[place] if token >= 0]
        first, wants_prompt = not request.num_output, request.params.prompt_logprobs is not None
        reason, stop, kept = self._ending(request, sampled)
        request.tokens += kept
        request.decoding = True
        self.stats.generation_tokens += len(kept)
        # Rows of accepted drafts after a stop are in the cache, but not tokens of the request.
        request.num_computed = min(request.num_computed, len(request.tokens) - 1)
        self._tables.commit(request.row, request.tokens, request.num_computed)
        if reason is not None:
            del self._requests[request.request_id]
            self._scheduler.finish(request)
        return RequestOutput(
            request_id=request.request_id,
            token_ids=tuple(kept),
            logprobs=result.logprobs[place][: len(kept)],
            prompt_logprobs=(None, *request.prompt_logprobs_so_far) if first and wants_prompt else (),
            num_cached_tokens=request.num_cached or 0,
            finish_reason=reason,
            stop_reason=stop,
        )

    def _ending(
        self, request: Request, sampled: list[int]
    ) -> tuple[FinishReason | None, int | None, list[int]]:
        """Why the request ends with these tokens, if it does; and those up to its end."""
        params = request.params
        room = min(params.max_tokens - request.num_output, self.config.max_model_len - len(request.tokens))
        for place, token in enumerate(sampled[:room]):
            if request.num_output + place + 1 <= params.min_tokens:
                continue
            if token == self.config.model.eos_token_id and not params.ignore_eos:
                return FinishReason.STOP, None, sampled[: place + 1]
            if token in request.stop_token_ids:
                return FinishReason.STOP, token, sampled[: place + 1]
        if len(sampled) >= room:
            return FinishReason.LENGTH, None, sampled[:room]
        return None, None, sampled

    def _count_drafts(self, num_drafts: int, num_accepted: int) -> None:
        self.stats.num_drafts += 1
        self.stats.num_draft_tokens += num_drafts
        self.stats.num_accepted_tokens += num_accepted
        for position in range(num_accepted):
            self.stats.accepted_per_pos[position] += 1

    def _update_stats(self) -> None:
        stats, scheduler = self.stats, self._scheduler
        stats.running, stats.waiting = len(scheduler.running), len(scheduler.waiting)
        stats.preemptions = scheduler.num_preemptions
        stats.prefix_cache_queries, stats.prefix_cache_hits = (
            scheduler.num_prefix_queries,
            scheduler.num_prefix_hits,
        )
        stats.kv_cache_usage = self._tables.pool.usage
        stats.launches_per_step = sum(self.launches.values())
