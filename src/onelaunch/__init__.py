"""onelaunch: the attention metadata of an LLM decode step in one GPU launch."""

from onelaunch.batch import DecodeBatch, GroupInputs
from onelaunch.builder import StepBuilder
from onelaunch.groups import WindowGroup
from onelaunch.topk import PackedTopk, pack_topk

__version__ = "0.1.0"

__all__ = [
    "DecodeBatch",
    "GroupInputs",
    "PackedTopk",
    "StepBuilder",
    "WindowGroup",
    "__version__",
    "pack_topk",
]
