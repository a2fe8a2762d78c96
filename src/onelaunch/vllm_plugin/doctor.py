"""What ``onelaunch doctor --vllm`` finds: vLLM here, whether it is supported, and what would be patched."""

from __future__ import annotations

import importlib
import logging
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from onelaunch.vllm_plugin import log, patches, settings, supported


def findings(vendor: str) -> dict[str, Any]:
    """Facts by name. vLLM's builders are imported and patched to find them out, and then put back.

    Args:
        vendor: of the platform, "amd", "nvidia" or "cpu".
    """
    found: dict[str, Any] = {
        "version": None,
        "supported": False,
        "reason": "vLLM is not installed",
        "flag": settings.requested(),
        "would patch": [],
        "not checked": [],
    }
    try:
        found["version"] = version("vllm")
        supported.require_version(found["version"])
    except PackageNotFoundError:
        return found
    except supported.Unsupported as problem:
        return {**found, "reason": str(problem)}
    said = _Said()
    log.forget()
    log.logger.addHandler(said)
    try:
        patches.install()
        for name in patches.HOOKS:
            if not _is_of_another(name, vendor):
                found["not checked"] += _import(name)
        found["would patch"] = patches.patched()
        found["supported"] = patches.installed()
        reasons = said.lines or [f"vLLM {supported.VERSIONS} is supported"]
        reasons += [f"Not checked, as it can't be imported here: {name}." for name in found["not checked"]]
        found["reason"] = " ".join(reasons)
    finally:
        patches.remove()
        log.logger.removeHandler(said)
    return found


def _is_of_another(module: str, vendor: str) -> bool:
    """Whether only another vendor's processes import a module."""
    return any(f".{other}." in module and other != vendor for other in ("amd", "nvidia"))


def _import(module: str) -> list[str]:
    """The module, if it can't be imported, and why: vLLM itself may be broken here, and that is a finding."""
    try:
        importlib.import_module(module)
    except Exception as error:
        return [f"{module}: {type(error).__name__}: {error}"]
    return []


class _Said(logging.Handler):
    """Keeps what the patches say."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())
