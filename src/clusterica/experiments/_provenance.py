"""Provenance of a result: commit, versions, device, time. `reproduce` writes it into every file."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from clusterica import __version__, get_config
from clusterica.experiments._context import Context

_LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba")


class Commit(NamedTuple):
    """The commit of this code, and whether files of the package have changed since; None if not known."""

    name: str | None
    changed: bool | None


def provenance(
    ctx: Context, commit: Commit, *, started: datetime, seconds: float
) -> dict[str, Any]:
    """Return what is needed to reproduce a result.

    Parameters
    ----------
    ctx : Context
        The run.
    commit : Commit
        The commit of the code when the run began: the checkout may change while it runs.
    started : datetime
        When it began.
    seconds : float
        How long it took.
    """
    versions = {"clusterica": __version__, "python": platform.python_version()}
    versions |= {name: version(name) for name in _LIBRARIES}
    if "torch" in sys.modules:
        versions["torch"] = version("torch")
    return {
        "commit": commit.name,
        "uncommitted_changes": commit.changed,
        "versions": versions,
        "seed": ctx.seed,
        "device": device_name(ctx),
        "device_was_shared": device_is_shared(ctx),
        "config": get_config(),
        "started": started.astimezone(UTC).isoformat(timespec="seconds"),
        "seconds": round(seconds, 3),
    }


def source_commit() -> Commit:
    """Return the commit of this code.

    In a checkout it comes from git; in an installed wheel it is in a file.
    """
    package = Path(__file__).parent.parent
    try:
        # The folder may lie in the repository of another project: it must contain this file.
        _git(package, "ls-files", "--error-unmatch", __file__)
        changed = bool(_git(package, "status", "--short", "."))
        return Commit(_git(package, "rev-parse", "HEAD"), changed)
    except (OSError, subprocess.CalledProcessError):
        built_from = files("clusterica") / "_commit.txt"
        if built_from.is_file():
            return Commit(built_from.read_text().strip(), False)
        return Commit(None, None)


def device_name(ctx: Context) -> str:
    """Return the name of the GPU, or of the processor with its number of cores."""
    if ctx.device is not None:
        import torch

        device = torch.device(ctx.device)
        if device.type == "cuda":
            return str(torch.cuda.get_device_name(device))
    return f"{_processor()}, {_n_cores()} cores"


def device_is_shared(ctx: Context) -> bool:
    """Return whether other processes work on the device now: times are then not those of a quiet one."""
    if ctx.device is not None:
        import torch

        device = torch.device(ctx.device)
        if device.type == "cuda":
            free, total = torch.cuda.mem_get_info(device)
            # The driver and the kernels of this process take about half a GiB beside what torch has reserved.
            return bool(total - free - torch.cuda.memory_reserved(device) > 2**30)
    # The load of a run on its own is that of its threads, one for each core, and a little more for a moment.
    return hasattr(os, "getloadavg") and os.getloadavg()[0] > 1.5 * _n_cores()


def _n_cores() -> int:
    if hasattr(os, "sched_getaffinity"):  # on Linux
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


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
