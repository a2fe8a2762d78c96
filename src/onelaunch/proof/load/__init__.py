"""A load client for ``/v1/completions``: a fixed number of streams, and what each request's tokens took."""

from onelaunch.proof.load.client import run_load
from onelaunch.proof.load.result import LoadResult
from onelaunch.proof.load.settings import LoadSettings
from onelaunch.proof.load.stream import RequestFailed

__all__ = ["LoadResult", "LoadSettings", "RequestFailed", "run_load"]
