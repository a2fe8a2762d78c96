"""Prompts from a seed."""

from __future__ import annotations

import numpy as np

from onelaunch.proof.load.settings import FIRST_TOKEN_ID, LoadSettings

# Short everyday words: one token each, with the space before, in the usual vocabularies.
_TEXT = (
    "the of and to in is it you that he was for on are with as his they be at one have this from or had by "
    "hot but some what there we can out other were all your when up use word how said an each she which do "
    "their time if will way about many then them would write like so these her long make thing see him two "
    "has look more day could go come did my sound no most number who over know water than call first people"
)
_WORDS = _TEXT.split()


def make_prompts(settings: LoadSettings) -> list[str] | list[list[int]]:
    """The prompts of a run: token ids, or words. Equal settings give equal prompts."""
    generator = np.random.default_rng(settings.seed)
    shape = (settings.requests, settings.prompt_tokens)
    if settings.text:
        return [" ".join(_WORDS[i] for i in row) for row in generator.integers(len(_WORDS), size=shape)]
    ids: list[list[int]] = generator.integers(FIRST_TOKEN_ID, settings.vocab_size, size=shape).tolist()
    return ids
