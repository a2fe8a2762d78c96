"""What ``onelaunch doctor --vllm`` finds: vLLM here, whether it is supported, and what would be patched."""

from __future__ import annotations

import importlib
import logging
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from onelaunch.vllm_plugin import guard, patches, settings, supported


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
    }
    try:
        found["version"] = version("vllm")
        supported.require_version(found["version"])
    except PackageNotFoundError:
        return found
    except supported.Unsupported as problem:
        return {**found, "reason": str(problem)}
    said = _Said()
    guard.logger.addHandler(said)
    try:
        patches.install()
        for name in patches.HOOKS:
            if name == patches.SPARSE_SWA or (".amd." in name and vendor == "amd"):
                importlib.import_module(name)
        found["would patch"] = patches.patched()
        found["supported"] = patches.installed()
        found["reason"] = " ".join(said.lines) or f"vLLM {supported.VERSIONS} is supported"
    except Exception as error:  # vLLM itself may be broken here: that is a finding
        found["reason"] = f"vLLM's builders can't be imported: {type(error).__name__}: {error}"
    finally:
        patches.remove()
        guard.logger.removeHandler(said)
    return found


class _Said(logging.Handler):
    """Keeps what the patches say."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())
