"""A torch that plays a GPU's, as far as watching it needs: what warns, and what is asked for by name."""

import warnings

from torch import cuda


class version:
    cuda = "13.0"
    hip = None


def wait():
    """A call that synchronises; PyTorch's C++ warns of it so."""
    if cuda.mode:
        warnings.warn("called a synchronizing CUDA operation (Triggered internally)", stacklevel=2)
