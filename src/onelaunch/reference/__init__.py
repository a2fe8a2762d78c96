"""The usual build: the specification, and the path of every batch that the kernel does not take."""

from onelaunch.reference.build import build_group, token_to_request
from onelaunch.reference.topk import pack_topk

__all__ = ["build_group", "pack_topk", "token_to_request"]
