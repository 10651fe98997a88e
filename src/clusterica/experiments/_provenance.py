"""Where a result comes from: commit, versions, device, time. Every file that `reproduce` writes says so."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

from clusterica import __version__
from clusterica.experiments._context import Context

_LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba")


def provenance(ctx: Context, *, started: datetime, seconds: float) -> dict[str, Any]:
    """Return what a reader needs to make a result again.

    Parameters
    ----------
    ctx : Context
        The run.
    started : datetime
        When it began.
    seconds : float
        How long it took.
    """
    commit, changed = source_commit()
    versions = {"clusterica": __version__, "python": platform.python_version()}
    versions |= {name: version(name) for name in _LIBRARIES}
    if "torch" in sys.modules:
        versions["torch"] = version("torch")
    return {
        "commit": commit,
        "uncommitted_changes": changed,
        "versions": versions,
        "seed": ctx.seed,
        "device": device_name(ctx),
        "started": started.astimezone(UTC).isoformat(timespec="seconds"),
        "seconds": round(seconds, 3),
    }


def source_commit() -> tuple[str | None, bool | None]:
    """Return the commit of this code, and whether files of the package have changed since.

    A checkout asks git; an installed wheel has the commit that it was built from in a file. (None, None)
    where neither is there.
    """
    package = Path(__file__).parent.parent
    try:
        # Not any repository that the environment happens to lie in: it must hold this file.
        _git(package, "ls-files", "--error-unmatch", __file__)
        return _git(package, "rev-parse", "HEAD"), bool(_git(package, "status", "--short", "."))
    except (OSError, subprocess.CalledProcessError):
        built_from = files("clusterica") / "_commit.txt"
        return (built_from.read_text().strip(), False) if built_from.is_file() else (None, None)


def device_name(ctx: Context) -> str:
    """Return what the run works on: the name of the GPU, or the processor and its number of cores."""
    if ctx.device is not None:
        import torch

        device = torch.device(ctx.device)
        if device.type == "cuda":
            return torch.cuda.get_device_name(device)
    return f"{_processor()}, {len(os.sched_getaffinity(0))} cores" if _LINUX else _processor()


_LINUX = hasattr(os, "sched_getaffinity")


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def _git(folder: Path, *words: str) -> str:
    command = ["git", "-C", str(folder), *words]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=10)
    return done.stdout.strip()
