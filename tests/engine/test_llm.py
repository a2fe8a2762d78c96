"""The engine offline: its tokens are the model's, however they are computed."""

from __future__ import annotations

import random

import pytest
import torch

from engine.plain import greedy, plain_logits
from onelaunch.engine import LLM, SamplingParams
from onelaunch.engine.outputs import FinishReason

TINY = {"preset": "tiny", "device": "cpu", "block_size": 16, "max_model_len": 256, "max_num_seqs": 8}
GREEDY = SamplingParams(max_tokens=12, temperature=0, ignore_eos=True)


def prompts(count: int, seed: int = 0, longest: int = 90) -> list[list[int]]:
    rng = random.Random(seed)
    return [[rng.randrange(256) for _ in range(rng.randint(1, longest))] for _ in range(count)]


def tokens(llm: LLM, given, params=GREEDY) -> list[tuple[int, ...]]:
    result = [completion.token_ids for completion in llm.generate(given, params)]
    assert all_free(llm)
    return result


def all_free(llm: LLM) -> bool:
    return llm.core._tables.pool.num_free == llm.core.config.num_blocks - 1


@pytest.fixture(scope="module")
def expected() -> list[tuple[int, ...]]:
    """Without drafts, prefix cache or company: one request at a time."""
    llm = LLM(**TINY, speculative=None, enable_prefix_caching=False)
    return [tokens(llm, [prompt])[0] for prompt in prompts(24)]


def test_serving_equals_the_model_over_the_whole_sequence(expected):
    llm = LLM(**TINY, speculative=None)
    with torch.inference_mode():
        for prompt, got in list(zip(prompts(24), expected, strict=True))[:4]:
            assert greedy(llm.core._runner._model, prompt, len(got)) == got


@pytest.mark.parametrize(
    "options",
    [
        {"speculative": None},
        {},
        {"attention": "dense"},
        {"speculative": '{"rejection_sample_method": "standard", "num_speculative_tokens": 1}'},
        {"speculative": '{"draft_sample_method": "probabilistic", "num_speculative_tokens": 3}'},
        {"speculative": '{"adaptive_verification": 0.4}'},
        # So few blocks that requests lose theirs, and so few rows that prompts come in chunks.
        {"num_blocks": 160, "max_num_batched_tokens": 56},
        {"enable_prefix_caching": False, "max_num_batched_tokens": 60, "block_size": 4},
    ],
    ids=str,
)
def test_greedy_tokens_are_the_same_however_they_are_computed(options, expected):
    llm = LLM(**{**TINY, **options}, sync_check="error")
    assert tokens(llm, prompts(24)) == expected
    if "num_blocks" in options:
        assert llm.core.stats.preemptions > 0


@pytest.mark.parametrize("k", [1, 2, 6, 7])
def test_prompts_and_what_the_prefix_cache_leaves_of_them_may_be_as_short_as_a_decode(k):
    # 1 to 40 new tokens: after a cached prefix of 64 tokens, and without one.
    beginning = prompts(1, seed=5, longest=64)[0][:64]
    beginning += [7] * (64 - len(beginning))
    short = [[(i * 5 + j) % 250 for j in range(i)] for i in range(1, 41)]
    plain = LLM(**TINY, speculative=None, enable_prefix_caching=False)
    few = SamplingParams(max_tokens=4, temperature=0, ignore_eos=True)
    want = [tokens(plain, [prompt], few)[0] for prompt in short]
    want_after = [tokens(plain, [beginning + prompt], few)[0] for prompt in short[::4]]
    llm = LLM(**TINY, speculative=f'{{"num_speculative_tokens": {k}}}')
    assert tokens(llm, short, few) == want
    tokens(llm, [[*beginning, 1]], few)
    hits = llm.core.stats.prefix_cache_hits
    assert tokens(llm, [beginning + prompt for prompt in short[::4]], few) == want_after
    assert llm.core.stats.prefix_cache_hits - hits >= 64 * len(short[::4])


def test_the_one_launch_gives_the_same_tokens_and_far_fewer_launches(expected):
    given = prompts(24)[:6]
    arms = {}
    for monokernel in (False, True):
        for attention in ("dense", "ragged"):
            llm = LLM(**TINY, monokernel=monokernel, attention=attention)
            assert tokens(llm, given, SamplingParams(max_tokens=4, temperature=0, ignore_eos=True)) == [
                one[:4] for one in expected[:6]
            ]
            arms[monokernel, attention] = llm.core.launches
            assert llm.core.metadata_path[0] == ("kernel" if monokernel else "reference")
    # 4 target and 3 draft groups: 8 launches a ragged group and 3 a dense one, a slot mapping each; a token
    # map a build; and 4 launches for each of the two top-k packs.
    assert sum(arms[False, "ragged"].values()) == 7 * 9 + 2 + 8
    assert sum(arms[False, "dense"].values()) == 7 * 4 + 2 + 8
    # One a build, one a pack.
    assert sum(arms[True, "ragged"].values()) == sum(arms[True, "dense"].values()) == 4


def test_a_request_samples_the_same_beside_others_and_alone():
    params = SamplingParams(max_tokens=12, temperature=0.9, top_k=40, top_p=0.9, seed=11, ignore_eos=True)
    given = prompts(8, seed=3)
    llm = LLM(**TINY, speculative=None)
    together = tokens(llm, given, params)
    assert together == [tokens(llm, [prompt], params)[0] for prompt in given]
    other = SamplingParams(max_tokens=12, temperature=0.9, top_k=40, top_p=0.9, seed=12, ignore_eos=True)
    assert tokens(llm, given, other) != together


@pytest.mark.parametrize("method", ["greedy", "probabilistic"])
def test_a_preempted_request_samples_on_as_if_nothing_had_been(method):
    """At a temperature the drafts decide which random numbers are used, so they must be the same, too."""
    given = prompts(6, seed=8)
    params = [SamplingParams(max_tokens=60, temperature=1.0, seed=i, ignore_eos=True) for i in range(6)]
    options = {
        **TINY,
        "speculative": f'{{"draft_sample_method": "{method}"}}',
        "enable_prefix_caching": False,
    }
    few = LLM(**options, num_blocks=145)
    assert tokens(few, given, params) == tokens(LLM(**options), given, params)
    assert few.core.stats.preemptions > 0
    assert few.core.stats.prompt_tokens == sum(map(len, given)), "each prompt counts once"
    assert few.core.stats.prefix_cache_queries == 0, "nothing was looked up"


def test_near_the_longest_sequence_no_draft_is_verified_that_could_not_be_kept():
    longest = TINY["max_model_len"]
    for room in (1, 2, 4):
        llm = LLM(**TINY)
        tokens(
            llm, [[1] * (longest - room - 1)], SamplingParams(max_tokens=99, temperature=0, ignore_eos=True)
        )
        stats = llm.core.stats
        assert stats.generation_tokens == room + 1
        assert stats.num_draft_tokens <= sum(range(room)), (
            "at most as many as tokens were still to come, less one"
        )


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"stop": "END"}, "stop is 'END': it must be a tuple of strings"),
        ({"stop": ("a", "")}, "of strings that are not empty"),
        ({"stop_token_ids": 5}, "stop_token_ids is 5"),
        ({"max_tokens": 1.5}, "max_tokens is 1.5: it must be an integer"),
        ({"max_tokens": None}, "max_tokens is None"),
        ({"top_k": True}, "top_k is True"),
        ({"seed": 1.5}, "seed is 1.5"),
        ({"logprobs": True}, "logprobs is True"),
        ({"temperature": "hot"}, "temperature is 'hot': it must be a number"),
    ],
)
def test_a_parameter_of_another_type_is_named(options, says):
    with pytest.raises(ValueError, match=says):
        SamplingParams(**options)


def test_one_prompt_without_a_list_is_refused():
    with pytest.raises(ValueError, match="must be a list of prompts"):
        LLM(**TINY).generate("2 + 3 =")


def test_requests_without_a_seed_get_different_ones():
    llm = LLM(**TINY)
    first, second = tokens(llm, [[1, 2, 3]] * 2, SamplingParams(max_tokens=16, ignore_eos=True))
    assert first != second


def test_logprobs_are_the_models_for_prompt_and_output():
    llm = LLM(**TINY, max_num_batched_tokens=60)
    [prompt] = prompts(1, seed=9, longest=150)
    prompt = (prompt * 150)[:150]  # in three chunks
    params = SamplingParams(max_tokens=5, temperature=0, ignore_eos=True, logprobs=3, prompt_logprobs=2)
    [done] = llm.generate([prompt], params)
    with torch.inference_mode():
        logprobs = plain_logits(llm.core._runner._model, [*prompt, *done.token_ids]).log_softmax(-1)
    assert done.prompt_logprobs[0] is None
    assert len(done.prompt_logprobs) == len(prompt)
    rows = [*done.prompt_logprobs[1:], *done.logprobs]
    for place, (one, row) in enumerate(zip(rows, logprobs, strict=False)):
        token = [*prompt, *done.token_ids][place + 1]
        assert one.token_id == token
        assert one.logprob == pytest.approx(float(row[token]), abs=2e-4)
        assert one.top[0][1] == pytest.approx(float(row.max()), abs=2e-4)
        assert len(one.top) == (2 if place < len(prompt) - 1 else 3)


def test_a_request_ends_at_its_limit_a_stop_token_a_stop_string_or_the_longest_sequence():
    llm = LLM(**{**TINY, "max_model_len": 32})
    [free] = tokens(llm, [[5, 6, 7]], SamplingParams(max_tokens=100, temperature=0, ignore_eos=True))
    assert len(free) == 32 - 3

    def run(**given):
        [done] = llm.generate([[5, 6, 7]], SamplingParams(temperature=0, ignore_eos=True, **given))
        return done

    assert run(max_tokens=100).finish_reason is FinishReason.LENGTH
    assert run(max_tokens=5).token_ids == free[:5]
    stopped = run(max_tokens=20, stop_token_ids=(free[6],))
    assert stopped.finish_reason is FinishReason.STOP
    assert stopped.token_ids == free[: free.index(free[6]) + 1]
    assert len(run(max_tokens=20, stop_token_ids=(free[6],), min_tokens=9).token_ids) > 8
    text = llm.core.tokenizer.decode(free)
    word = text[4:6]
    cut = run(max_tokens=29, stop=(word,))
    assert cut.text == text[: text.index(word)]
    assert cut.finish_reason is FinishReason.STOP


def test_the_end_of_sequence_token_ends_a_request_and_not_before_min_tokens():
    llm = LLM(**TINY)
    model = llm.core._runner._model
    with torch.no_grad():
        model.lm_head.weight[257] = 0
        model.lm_head.weight[257] += model.lm_head.weight.abs().max() * 5  # likely, not always the likeliest
    params = {"temperature": 1.0, "max_tokens": 64, "seed": 3}
    [ended] = llm.generate([[1, 2, 3]], SamplingParams(**params))
    assert ended.token_ids[-1] == 257
    assert ended.finish_reason is FinishReason.STOP
    [later] = llm.generate([[1, 2, 3]], SamplingParams(**params, min_tokens=20))
    assert 257 not in later.token_ids[:20]
    assert ended.text == llm.core.tokenizer.decode(ended.token_ids[:-1])


def test_a_wrong_prompt_is_refused_and_nothing_is_left_behind():
    llm = LLM(**TINY)
    for bad in ([], [264], [-1], [1] * 256):
        with pytest.raises(ValueError, match="the prompt has"):
            llm.generate([[1, 2], bad])
        assert not llm.core.has_unfinished()
    assert len(tokens(llm, [[1, 2]])) == 1


def test_aborted_requests_free_their_blocks_whether_they_run_or_wait():
    llm = LLM(**TINY)
    for i in range(20):
        llm.core.add(f"r{i}", [i + 1] * 50, GREEDY)
    llm.core.step()
    assert llm.core.stats.running == 8
    assert llm.core.stats.waiting == 12
    for i in range(20):
        llm.core.abort(f"r{i}")
    llm.core.abort("never was")
    assert not llm.core.has_unfinished()
    assert all_free(llm)
    assert llm.core.step() == []


def test_drafts_are_counted_as_they_are_accepted():
    llm = LLM(
        **TINY, speculative='{"rejection_sample_method": "synthetic", "synthetic_acceptance_length": 4}'
    )
    llm.generate(prompts(8), SamplingParams(max_tokens=100, temperature=0, ignore_eos=True))
    stats = llm.core.stats
    assert stats.num_accepted_tokens == sum(stats.accepted_per_pos)
    assert 1 + stats.num_accepted_tokens / stats.num_drafts == pytest.approx(4, abs=0.4)
    assert stats.accepted_per_pos == sorted(stats.accepted_per_pos, reverse=True)


def test_a_block_of_which_no_token_is_verified_is_a_draft_too():
    llm = LLM(**TINY, speculative='{"adaptive_verification": 0.1}')
    given = prompts(8)
    llm.generate(given, SamplingParams(max_tokens=40, temperature=0, ignore_eos=True))
    stats = llm.core.stats
    assert stats.num_draft_tokens < stats.num_drafts
    # Tokens of decode steps, but for a last one that no draft could follow.
    assert stats.num_drafts + stats.num_accepted_tokens >= 8 * 40 - 2 * len(given)


def test_without_a_checkpoint_some_drafts_are_right_and_the_context_still_decides():
    llm = LLM(**TINY)
    params = SamplingParams(max_tokens=40, temperature=0, ignore_eos=True)
    given = prompts(12, seed=4)
    first = tokens(llm, given, params)
    stats = llm.core.stats
    assert 1.3 < 1 + stats.num_accepted_tokens / stats.num_drafts < 4
    assert stats.accepted_per_pos[1] > 0
    other = tokens(
        llm, [[*[t ^ 1 for t in prompt[:-1]], prompt[-1]] for prompt in given if len(prompt) > 4], params
    )
    kept = [one for one, prompt in zip(first, given, strict=True) if len(prompt) > 4]
    same = sum(a == b for one, two in zip(kept, other, strict=True) for a, b in zip(one, two, strict=True))
    assert same < 0.3 * 40 * len(kept)


def test_requests_of_different_salts_share_no_blocks():
    llm = LLM(**TINY)
    prompt = prompts(1, longest=200)[0] * 3
    prompt = (prompt * 3)[:100]

    def hits(salt):
        before = llm.core.stats.prefix_cache_hits
        llm.core.add("one", prompt, GREEDY, cache_salt=salt)
        while llm.core.has_unfinished():
            llm.core.step()
        return llm.core.stats.prefix_cache_hits - before

    assert [hits("a"), hits("a"), hits("b"), hits(None), hits("b")] == [0, 96, 0, 0, 96]
