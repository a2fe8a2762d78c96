"""A small, complete engine of DeepSeek-V4.1's shape, whose decode metadata is one launch a build."""

from onelaunch.engine.llm import LLM, Completion
from onelaunch.engine.sampling_params import SamplingParams

__all__ = ["LLM", "Completion", "SamplingParams"]
