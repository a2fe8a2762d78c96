"""Where tests build: a GPU if there is one; else the CPU, where kernels run in Triton's interpreter."""

from __future__ import annotations

import torch

DEVICE = torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
