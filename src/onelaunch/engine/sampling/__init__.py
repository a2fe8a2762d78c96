"""The mathematics of sampling: pure functions of tensors, with nothing read back to the host."""

from onelaunch.engine.sampling.adaptive import allocate_drafts
from onelaunch.engine.sampling.distribution import probabilities, sample, token_logprobs
from onelaunch.engine.sampling.noise import uniform
from onelaunch.engine.sampling.verifier import Verified, Verifier

__all__ = [
    "Verified",
    "Verifier",
    "allocate_drafts",
    "probabilities",
    "sample",
    "token_logprobs",
    "uniform",
]
