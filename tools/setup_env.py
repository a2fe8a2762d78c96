"""Make a virtual environment that the Makefile runs in, with the PyTorch build that suits the machine.

    python tools/setup_env.py .venv               # the project's
    python tools/setup_env.py .venv-vllm --vllm   # vLLM's own code, on a CPU, for the plug-in's tests

Without a GPU that is the CPU build, never the CUDA build that the plain name brings with several GB of
libraries. With an NVIDIA GPU it is the plain name, with an AMD GPU the ROCm build. TORCH_INDEX_URL names
another index to take PyTorch from: a mirror, another CUDA or ROCm version.

Needs only the standard library: it runs before anything is installed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

# The one place that pins PyTorch for development: CI, bug reports and the CPU figures in docs then mean the
# same build. The package itself takes any PyTorch from 2.9 on.
TORCH = "2.13.0"
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
ROCM_INDEX = "https://download.pytorch.org/whl/rocm7.2"

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = ("plots", "engine", "proof", "test", "dev")

VLLM = "vllm==0.33.0"
# What vLLM's metadata builders import: its own list would bring CUDA and more.
VLLM_REQUIREMENTS = ROOT / "tests" / "vllm_plugin" / "contract" / "requirements.txt"


def find_gpu() -> str | None:
    """'nvidia', 'amd' or None, asked of the driver: PyTorch is not there yet."""
    try:
        if subprocess.run(["nvidia-smi", "-L"], capture_output=True, timeout=60).stdout.startswith(b"GPU "):
            return "nvidia"
    except (OSError, subprocess.TimeoutExpired):
        pass
    return "amd" if Path("/dev/kfd").exists() else None


def torch_sources(gpu: str | None, index_url: str | None, system: str = sys.platform) -> list[list[str]]:
    """Arguments of ``pip install`` for PyTorch, to be tried in turn."""
    plain = f"torch=={TORCH}"
    # The "+cpu" label is what keeps CUDA out: no other build has it, and where an index has no such build
    # pip fails before it downloads anything. macOS has only CPU builds, without a label.
    wanted = f"{plain}+cpu" if gpu is None and system == "linux" else plain
    if index_url:
        return [["--index-url", index_url, wanted]]
    if gpu == "amd":
        return [["--index-url", ROCM_INDEX, wanted]]
    if wanted == plain:
        return [[wanted]]
    return [[wanted], ["--index-url", CPU_INDEX, wanted]]  # a local index or mirror first


def project_requirements(gpu: str | None) -> list[list[str]]:
    """Arguments of each ``pip install`` for the project itself and what it needs."""
    editable = f"{ROOT}[{','.join(EXTRAS)}]"
    if gpu != "amd":
        return [["--editable", editable]]
    # ROCm's PyTorch brings Triton as "triton-rocm"; the "triton" we require would overwrite its files.
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = [*project["dependencies"], *(r for e in EXTRAS for r in project["optional-dependencies"][e])]
    return [
        [requirement for requirement in needed if not re.match(r"(torch|triton)\b", requirement)],
        ["--no-deps", "--editable", str(ROOT)],
    ]


def main(target: Path, *, vllm: bool = False) -> None:
    """Make or refresh the environment in ``target``.

    Args:
        vllm: with vLLM's own code, and then for the CPU.

    Raises:
        SystemExit: an installation failed; pip's own message has been printed.
    """
    gpu, index_url = None if vllm else find_gpu(), os.environ.get("TORCH_INDEX_URL")
    build = {None: "CPU build", "nvidia": "CUDA build", "amd": "ROCm build"}[gpu]
    python_version = sys.version.split()[0]
    print(f"{target}: Python {python_version}, PyTorch {TORCH} ({build}); a minute or more", flush=True)
    venv.create(target, with_pip=True, symlinks=True)
    python = str(target / "bin" / "python")
    failures = []
    for source in torch_sources(gpu, index_url):
        done = pip_install(python, source)
        if done.returncode == 0:
            break
        failures.append(f"pip install {' '.join(source)}\n{done.stderr}")
    else:
        failures.append("PyTorch could not be installed: name an index that has it in TORCH_INDEX_URL")
        raise SystemExit("\n".join(failures))
    vllm_requirements = [["--requirement", str(VLLM_REQUIREMENTS)], ["--no-deps", VLLM]]
    for requirements in vllm_requirements if vllm else project_requirements(gpu):
        done = pip_install(python, requirements)
        if done.returncode:
            raise SystemExit(f"pip install {' '.join(requirements)}\n{done.stderr}")
    (target / ".ready").touch()


def pip_install(python: str, arguments: list[str]) -> subprocess.CompletedProcess[str]:
    # -qq: errors only.
    command = [python, "-m", "pip", "install", "-qq", "--disable-pip-version-check", *arguments]
    return subprocess.run(command, stderr=subprocess.PIPE, text=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), vllm=sys.argv[2:] == ["--vllm"])
