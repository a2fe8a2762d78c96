"""Before any test: Triton is imported by the package, which chooses the interpreter where there is no GPU.

PyTorch's optimizers import it too; whoever comes first decides.
"""

import signal

import onelaunch._triton  # noqa: F401

# A shell's background job ignores it, and so would all that tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)
