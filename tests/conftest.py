"""Before any test: Triton is imported by the package, which chooses the interpreter where there is no GPU.

PyTorch's optimizers import it too; whoever comes first decides.
"""

import onelaunch._triton  # noqa: F401
