import os
import warnings

started = False
mode = 0
_queued = []


def is_available():
    assert os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] == "1", "this would start CUDA"
    return True


def _lazy_call(function):
    function() if started else _queued.append(function)


def init():
    global started
    if not started:
        started = True
        for function in _queued:
            function()


def set_sync_debug_mode(debug_mode):
    global mode
    init()
    warnings.warn("Synchronization debug mode is a prototype feature (Triggered internally)", stacklevel=2)
    mode = {"default": 0, "warn": 1, "error": 2}.get(debug_mode, debug_mode)


def get_sync_debug_mode():
    init()
    return mode


def synchronize(device=None):
    pass


class Event:
    def synchronize(self):
        pass


class Stream:
    def synchronize(self):
        if mode:  # unlike an event's
            warnings.warn("called a synchronizing CUDA operation (Triggered internally)", stacklevel=2)
