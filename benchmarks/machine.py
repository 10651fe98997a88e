"""What a figure was measured on: the processor, its cores, the versions of the libraries."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy  # noqa: F401  # loads its BLAS, which is to be described
import threadpoolctl

LIBRARIES = (
    "clusterica",
    "numpy",
    "scikit-learn",
    "numba",
    "faiss-cpu",
    "python-picard",
    "torch",
    "triton",
)


def describe() -> dict[str, Any]:
    """Return the machine and the versions, for a results file."""
    return {
        "cpu": _cpu_name(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "libraries": {name: v for name in LIBRARIES if (v := _version(name))},
        "blas": sorted(
            {
                f"{info['internal_api']} {info.get('version')} {info.get('architecture', '')}".strip()
                for info in threadpoolctl.threadpool_info()
                if info["user_api"] == "blas"
            }
        ),
    }


def _cpu_name() -> str:
    info = Path("/proc/cpuinfo")
    if not info.exists():
        return platform.processor()
    fields = dict(
        line.split(":", 1) for line in info.read_text().split("\n\n")[0].splitlines() if ":" in line
    )
    fields = {key.strip(): value.strip() for key, value in fields.items()}
    flags = fields.get("flags", "")
    wide = "AVX-512" if "avx512f" in flags else "no AVX-512"
    wide += " with bfloat16" if "avx512_bf16" in flags else ""
    return f"{fields.get('model name', platform.machine())}, {wide}"


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
