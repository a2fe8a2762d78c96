"""Serving traffic: a trace of requests, and the decode steps an engine would run for it. NumPy only."""

from onelaunch.traffic.acceptance import Acceptance
from onelaunch.traffic.schedule import DecodeStep, Schedule, StepInputs, serving_groups
from onelaunch.traffic.trace import Request, generated_trace, read_trace, write_trace

__all__ = [
    "Acceptance",
    "DecodeStep",
    "Request",
    "Schedule",
    "StepInputs",
    "generated_trace",
    "read_trace",
    "serving_groups",
    "write_trace",
]
