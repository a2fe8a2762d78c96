"""Checks of a build's arguments, on host-side facts only: type, dtype, shape, device, stride.

Each raises ValueError naming the argument, what it was and what it must be. They run before anything is
launched or written, and never read a tensor's values, so they cost no synchronisation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from onelaunch.batch import DecodeBatch, GroupInputs
from onelaunch.groups import GroupBuffers, WindowGroup

_INT32_MAX = 2**31 - 1


def check_int(name: str, value: object, low: int, high: int) -> int:
    """``value`` as an int in [low, high]."""
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise ValueError(f"{name} is {value!r}: it must be an integer from {low} to {high}")
    return value


def check_device(value: object) -> torch.device:
    """``value`` as a CPU or a GPU that is there, with its index, as tensors on it report it."""
    try:
        device = torch.device(value)  # type: ignore[call-overload]
    except (RuntimeError, TypeError):
        device = None
    if device is None or device.type not in ("cpu", "cuda"):
        raise ValueError(f"device is {value!r}: it must be a CPU, or a CUDA or ROCm GPU")
    if device.type == "cpu":
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise ValueError(f"device is {value!r}: PyTorch {torch.__version__} finds no GPU here")
    index = torch.cuda.current_device() if device.index is None else device.index
    if index >= torch.cuda.device_count():
        raise ValueError(f"device is {value!r}: there are {torch.cuda.device_count()} GPUs")
    return torch.device("cuda", index)


def check_tensor(
    name: str,
    value: object,
    dtype: torch.dtype,
    shape: Sequence[int | str],
    device: torch.device,
    *,
    contiguous: bool = True,
) -> torch.Tensor:
    """``value`` as a tensor. A string in ``shape`` names a dimension of any size, ">=N" one of at least N."""
    if not isinstance(value, torch.Tensor):
        raise ValueError(f"{name} is a {type(value).__name__}: it must be a tensor")
    if value.dtype is not dtype:
        raise ValueError(f"{name} is {value.dtype}: it must be {dtype}")
    wanted = "[" + ", ".join(map(str, shape)) + "]"
    fits = value.dim() == len(shape) and all(
        size == want
        if isinstance(want, int)
        else (not want.startswith(">=") or size >= int(want.removeprefix(">=")))
        for size, want in zip(value.shape, shape, strict=True)
    )
    if not fits:
        raise ValueError(f"{name} has shape {list(value.shape)}: it must be {wanted}")
    if value.device != device:
        raise ValueError(f"{name} is on {value.device}: it must be on {device}")
    if contiguous and not value.is_contiguous():
        raise ValueError(f"{name} has strides {list(value.stride())}: it must be contiguous")
    return value


def check_block_table(name: str, value: object, num_requests: int, device: torch.device) -> torch.Tensor:
    """``value`` as a block table: [>= num_requests, B] int32, rows strided at will, columns contiguous."""
    table = check_tensor(name, value, torch.int32, [f">={num_requests}", "B"], device, contiguous=False)
    row_stride, column_stride = table.stride()
    if column_stride != 1 and table.shape[1] > 1:
        raise ValueError(f"{name} has column stride {column_stride}: it must be 1")
    if row_stride > _INT32_MAX:
        raise ValueError(f"{name} has row stride {row_stride}: it must be below 2**31")
    return table


def check_batch(batch: object, max_tokens: int, max_requests: int, device: torch.device) -> DecodeBatch:
    """The batch of a build; see :class:`DecodeBatch`."""
    if not isinstance(batch, DecodeBatch):
        raise ValueError(f"batch is a {type(batch).__name__}: it must be a DecodeBatch")
    check_int("num_tokens", batch.num_tokens, 0, max_tokens)
    starts = check_tensor("query_start_loc", batch.query_start_loc, torch.int32, ["R+1"], device)
    num_requests = starts.shape[0] - 1
    if not 0 <= num_requests <= max_requests:
        raise ValueError(
            f"query_start_loc has {starts.shape[0]} entries for {num_requests} requests: "
            f"it must have 1 to max_requests + 1 = {max_requests + 1}"
        )
    check_tensor("seq_lens", batch.seq_lens, torch.int32, [num_requests], device)
    if batch.replay_start is not None:
        check_tensor("replay_start", batch.replay_start, torch.int32, [num_requests], device)
    return batch


def check_inputs(
    inputs: object, groups: Sequence[WindowGroup], batch: DecodeBatch, device: torch.device
) -> list[GroupInputs]:
    """The inputs of every group, in the groups' order."""
    if not isinstance(inputs, Mapping):
        raise ValueError(
            f"inputs is a {type(inputs).__name__}: it must be a mapping of group name to GroupInputs"
        )
    names = [group.name for group in groups]
    for name in names:
        if name not in inputs:
            raise ValueError(f"inputs has no group {name!r}: it must have {names}")
    for name in inputs:
        if name not in names:
            raise ValueError(f"inputs has the unknown group {name!r}: it must have {names}")
    num_requests = batch.query_start_loc.shape[0] - 1
    ordered = []
    for group in groups:
        given = inputs[group.name]
        if not isinstance(given, GroupInputs):
            raise ValueError(f"inputs[{group.name!r}] is a {type(given).__name__}: it must be a GroupInputs")
        check_block_table(f"block_table of {group.name!r}", given.block_table, num_requests, device)
        slots = f"slot_mapping of {group.name!r}"
        if group.make_slots:
            if given.slot_mapping is not None:
                raise ValueError(
                    f"{slots} is given: it must be None, as the group was made with make_slots=True"
                )
        else:
            check_tensor(slots, given.slot_mapping, torch.int64, [batch.num_tokens], device)
        ordered.append(given)
    return ordered


def check_groups(groups: Sequence[WindowGroup], max_tokens: int) -> tuple[WindowGroup, ...]:
    """The groups of a builder: at least one, named apart, and small enough for int32 offsets."""
    groups = tuple(groups)
    if not groups:
        raise ValueError("groups is empty: a builder needs at least one WindowGroup")
    seen: set[str] = set()
    for group in groups:
        if not isinstance(group, WindowGroup):
            raise ValueError(f"groups holds a {type(group).__name__}: it must hold WindowGroup only")
        if group.name in seen:
            raise ValueError(f"groups has the name {group.name!r} twice: names must differ")
        seen.add(group.name)
        if max_tokens * group.width > _INT32_MAX:
            raise ValueError(
                f"max_tokens is {max_tokens} and group {group.name!r} is {group.width} wide: "
                "their product must be below 2**31, as ragged_indptr is int32"
            )
    return groups


def check_buffers(group: WindowGroup, buffers: GroupBuffers, max_tokens: int, device: torch.device) -> None:
    """Buffers an engine brings for a group, shaped as :class:`GroupBuffers` says, on 16-byte addresses."""
    wanted = {
        "is_valid": (torch.bool, [max_tokens]),
        "indices": (torch.int32, [max_tokens, 1, group.width]),
        "lengths": (torch.int32, [max_tokens]),
        "ragged_indices": (torch.int32, [max(max_tokens * group.width, 1)]) if group.ragged else None,
        "ragged_indptr": (torch.int32, [max_tokens + 1]) if group.ragged else None,
        "slot_mapping": (torch.int64, [max_tokens]) if group.make_slots else None,
    }
    for field, want in wanted.items():
        name, value = f"{field} buffer of {group.name!r}", getattr(buffers, field)
        if want is None:
            if value is not None:
                raise ValueError(f"{name} is given: it must be None for this group")
            continue
        dtype, shape = want
        tensor = check_tensor(name, value, dtype, shape, device)
        if tensor.data_ptr() % 16:
            raise ValueError(f"{name} starts at {tensor.data_ptr():#x}: it must start on 16 bytes")
