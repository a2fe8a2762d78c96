"""The hooks into vLLM 0.33. Methods are replaced in place: vLLM checks some builders' exact types."""

from __future__ import annotations

import functools
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

from onelaunch.batch import GroupInputs
from onelaunch.vllm_plugin import guard, imports, log, settings, step, supported, window
from onelaunch.vllm_plugin.plan import plan_of
from onelaunch.vllm_plugin.window import Member, Owner

SPARSE_SWA = "vllm.v1.attention.backends.mla.sparse_swa"
_PREFIX_LEN_CM = "self common_prefix_len common_attn_metadata fast_build replay_start"
_undo: list[Callable[[], object]] = []
_installed = False


def install() -> None:
    """Have everything patched as vLLM imports it. Does nothing the second time."""
    global _installed
    if _installed:
        return
    _installed = True
    for module, patch in HOOKS.items():
        if _installed:  # until one of them does not fit
            imports.when_imported(module, _guarded(patch))


def remove() -> None:
    """Put vLLM's own functions back."""
    global _installed
    imports.forget()
    while _undo:
        _undo.pop()()
    window.owners.clear()
    _installed = False


def installed() -> bool:
    return _installed


def patched() -> list[str]:
    """The builder classes whose builds are taken."""
    return [f"{cls.__module__}.{cls.__qualname__}" for cls in window.owners]


def _guarded(patch: Callable[[ModuleType], None]) -> imports.Action:
    def apply(module: ModuleType) -> None:
        if not _installed:
            return
        try:
            patch(module)
        except Exception as problem:  # an import of vLLM must not fail over this
            log.warn_once(f"onelaunch patches nothing: {problem}")
            remove()

    return apply


def _replace(holder: Any, name: str, new: object) -> None:
    inherited = name not in vars(holder)
    old = getattr(holder, name)
    setattr(holder, name, new)
    _undo.append(lambda: delattr(holder, name) if inherited else setattr(holder, name, old))


# --- the builders: DeepSeek-V4's and V4.1's of NVIDIA share the base class's build, ROCm has its own


def _patch_base(module: ModuleType) -> None:
    cls = module.DeepseekSparseSWAMetadataBuilder
    build = supported.require_parameters(cls, "build", _PREFIX_LEN_CM)
    update = supported.require_parameters(cls, "update_draft_decode_metadata", "self metadata")
    metadata = module.DeepseekSparseSWAMetadata
    supported.require_fields(metadata, window.FIELDS)
    supported.require_fields(module.CommonAttentionMetadata, window.INPUT_FIELDS)
    _own(cls, _owner(module, build, update, metadata, ragged=False))
    _replace(cls, "update_draft_decode_metadata", _patched_update(window.owners[cls]))


def _patch_rocm(version: str, module: ModuleType) -> None:
    cls = getattr(module, f"Deepseek{version}ROCMAiterSparseSWAMetadataBuilder")
    build = supported.require_parameters(cls, "build", _PREFIX_LEN_CM)
    metadata = getattr(module, f"Deepseek{version}ROCMAiterSparseSWAMetadata")
    supported.require_fields(metadata, (*window.FIELDS, *window.RAGGED_FIELDS))
    base = sys.modules[SPARSE_SWA]
    update = _with_ragged_views(window.owners[base.DeepseekSparseSWAMetadataBuilder].update, module)
    _own(cls, _owner(base, build, update, metadata, ragged=True))
    if settings.rocm_draft_update():
        _replace(cls, "update_draft_decode_metadata", _patched_update(window.owners[cls]))
        _replace(cls, "supports_draft_decode_metadata_update", True)


def _owner(base: ModuleType, build: Any, update: Any, metadata: type, *, ragged: bool) -> Owner:
    return Owner(
        build=build,
        update=update,
        split=base.split_decodes_and_prefills,
        map_tokens=base.compute_token_to_req_indices,
        metadata=metadata,
        ragged=ragged,
    )


def _own(cls: type, owner: Owner) -> None:
    window.owners[cls] = owner
    _replace(cls, "build", _patched_build(owner))


def _patched_build(owner: Owner) -> Callable[..., Any]:
    @functools.wraps(owner.build)
    def build(
        self: Any,
        common_prefix_len: int,
        common_attn_metadata: Any,
        fast_build: bool = False,
        replay_start: Any = None,
    ) -> Any:
        def usual() -> Any:
            return owner.build(self, common_prefix_len, common_attn_metadata, fast_build, replay_start)

        # ROCm's own build calls this one of its base class: then the launch is not this one's to make.
        if window.owner_of(self) is not owner:
            return usual()
        return step.build(owner, self, common_attn_metadata, replay_start, usual)

    return build


def _patched_update(owner: Owner) -> Callable[..., None]:
    @functools.wraps(owner.update)
    def update_draft_decode_metadata(self: Any, metadata: Any) -> None:
        def usual() -> None:
            owner.update(self, metadata)

        if window.owner_of(self) is not owner:
            return usual()
        return step.update(owner, self, metadata, usual)

    return update_draft_decode_metadata


def _with_ragged_views(update: Callable[..., None], module: ModuleType) -> Callable[..., None]:
    """The base class's draft update, then the refresh of the ragged views that it lacks on ROCm.

    By the functions that ROCm's build fills them with, which are safe to record. The kernel is compared
    with this.
    """

    @functools.wraps(update)
    def update_draft_decode_metadata(self: Any, metadata: Any) -> None:
        update(self, metadata)
        rows, width = metadata.num_decode_tokens, metadata.decode_swa_width
        if rows:
            ragged, indptr = module.build_ragged_indices_from_dense(
                metadata.decode_swa_indices.reshape(rows, width), metadata.decode_swa_lens
            )
            buffers = self.decode_swa_ragged_indices_buffer, self.decode_swa_ragged_indptr_buffer
            module._copy_ragged_to_graph_buffers(ragged, indptr, *buffers, rows, width)

    return update_draft_decode_metadata


# --- the calls that build or update all groups


def _patch_build_attn_metadata(module: ModuleType) -> None:
    usual = supported.require_parameters(
        module,
        "build_attn_metadata",
        "attn_groups num_reqs num_tokens query_start_loc_gpu query_start_loc_cpu max_query_len seq_lens "
        "max_seq_len block_tables slot_mappings kv_cache_config seq_lens_cpu_upper_bound dcp_local_seq_lens "
        "dcp_local_seq_lens_cpu_upper_bound positions is_prefilling mm_req_doc_ranges "
        "model_specific_attn_metadata for_cudagraph_capture causal rswa_prefix_lens ubatch_idx fast_prefill "
        "req_idx",
    )

    @functools.wraps(usual)
    def build_attn_metadata(attn_groups: Any, *args: Any, **call: Any) -> Any:
        if args or guard.disarmed():  # vLLM names its arguments
            return usual(attn_groups, *args, **call)
        with step.opened("build", _or_none(_build_members, attn_groups, call)):
            return usual(attn_groups, **call)

    # Modules that were imported before have the function under their own name.
    for name, holder in list(sys.modules.items()):
        # By its dictionary: to ask a lazy module for an attribute may import half a library.
        if name.startswith("vllm.") and vars(holder).get("build_attn_metadata") is usual:
            _replace(holder, "build_attn_metadata", build_attn_metadata)


def _or_none(collect: Callable[..., Iterable[Member]], *args: Any) -> list[Member]:
    """What ``collect`` yields. vLLM's call goes on without a step whatever goes wrong here."""
    try:
        return list(collect(*args))
    except Exception as error:
        step.failed(error)
        return []


def _windows(
    attn_groups: Sequence[Sequence[Any]], ubatch_idx: int = 0
) -> Iterator[tuple[int, Any, Any, Owner]]:
    """The window groups whose inputs are known before any is built: KV-cache group, group, builder, owner."""
    for i, groups in enumerate(attn_groups):
        for group in groups:
            builder = group.get_metadata_builder(ubatch_idx)
            owner = window.owner_of(builder)
            if owner is None or group.kernel_block_size is not None:
                # The rest of this KV-cache group shares its block table, which other builders may change, and
                # a group with blocks of its own gets its table just before its build.
                break
            yield i, group, builder, owner


def _build_members(attn_groups: Sequence[Sequence[Any]], call: Mapping[str, Any]) -> Iterator[Member]:
    """The window groups of a call."""
    block_tables, slot_mappings = call["block_tables"], call["slot_mappings"]
    causal = call.get("causal", True)
    for i, _, builder, owner in _windows(attn_groups, call.get("ubatch_idx", 0)):
        group_causal = causal.get(i, True) if isinstance(causal, Mapping) else causal
        yield Member(owner, builder, GroupInputs(block_tables[i], slot_mappings[i]), group_causal)


def _patch_speculator(module: ModuleType) -> None:
    cls = module.DraftModelSpeculator
    usual = supported.require_parameters(cls, "_update_draft_decode_metadata", "self attn_metadata num_reqs")

    @functools.wraps(usual)
    def _update_draft_decode_metadata(self: Any, attn_metadata: Any, num_reqs: int) -> None:
        if guard.disarmed():
            usual(self, attn_metadata, num_reqs)
            return
        with step.opened("update", _or_none(_update_members, self.attn_groups, attn_metadata)):
            usual(self, attn_metadata, num_reqs)

    _replace(cls, "_update_draft_decode_metadata", _update_draft_decode_metadata)


def _update_members(
    attn_groups: Sequence[Sequence[Any]], attn_metadata: Mapping[str, Any]
) -> Iterator[Member]:
    """The window groups of a draft step, as the metadata that vLLM refreshes tells them."""
    for _, group, builder, owner in _windows(attn_groups):
        found = window.draft_update(owner, builder, attn_metadata[group.layer_names[0]])
        if found is not None:
            yield found[1]


def _patch_metadata_graphs(module: ModuleType) -> None:
    cls = module.AttnMetadataCudaGraphs
    usual = supported.require_parameters(cls, "_forked_build", "self attn_groups block_tables build_fn")
    usual_replay = supported.require_parameters(cls, "replay", "self key")

    @functools.wraps(usual)
    def _forked_build(self: Any, attn_groups: Any, block_tables: Any, build_fn: Any) -> Any:
        if guard.disarmed():
            return usual(self, attn_groups, block_tables, build_fn)
        return usual(self, attn_groups, _on_one_branch(attn_groups, block_tables), build_fn)

    @functools.wraps(usual_replay)
    def replay(self: Any, key: Any) -> Any:
        # A recording may hold a launch that has since been found wrong. As if there was none, vLLM builds.
        return None if guard.disarmed() else usual_replay(self, key)

    _replace(cls, "_forked_build", _forked_build)
    _replace(cls, "replay", replay)


def _on_one_branch(attn_groups: Sequence[Sequence[Any]], block_tables: Iterable[Any]) -> list[Any]:
    """Block tables for ``_forked_build``, where the window groups of one launch have the first one's.

    It puts groups whose tables share storage on one branch, and uses the tables for nothing else.
    """
    tables = list(block_tables)

    def storage(i: int) -> int:
        return int(tables[i].untyped_storage().data_ptr())

    try:
        known = list(_windows(attn_groups))
        count = Counter(i for i, *_ in known)
        others = {storage(i) for i, groups in enumerate(attn_groups) if len(groups) > count[i]}
        branch = [i for i in count if storage(i) not in others]
        members = [
            Member(owner, builder, GroupInputs(tables[i]), causal=True)  # as vLLM records the target's builds
            for i, _, builder, owner in known
            if i in branch
        ]
        plan = plan_of(members, capturing=step.capturing(tables[0].device)) if members else None
        if plan is not None and plan.kernel is not None:
            for i in branch:
                tables[i] = tables[branch[0]]
    except Exception as error:
        step.failed(error)
    return tables


HOOKS: dict[str, Callable[[ModuleType], None]] = {
    SPARSE_SWA: _patch_base,
    "vllm.models.deepseek_v41.amd.rocm": functools.partial(_patch_rocm, "V41"),
    "vllm.models.deepseek_v4.amd.rocm": functools.partial(_patch_rocm, "V4"),
    "vllm.v1.worker.gpu.attn_utils": _patch_build_attn_metadata,
    "vllm.v1.worker.gpu.spec_decode.speculator": _patch_speculator,
    "vllm.models.deepseek_v41.nvidia.specialized_decode.runtime.metadata_graphs": _patch_metadata_graphs,
}
