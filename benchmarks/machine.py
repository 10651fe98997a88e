"""What a figure was measured on: the processor, the versions, commit and day, and who else was at work."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy  # noqa: F401  # loads its BLAS, which is to be described
import threadpoolctl

LIBRARIES = (
    "clusterica",
    "numpy",
    "scikit-learn",
    "scikit-learn-intelex",
    "numba",
    "faiss-cpu",
    "fastkmeans",
    "python-picard",
    "torch",
    "triton",
)


def describe() -> dict[str, Any]:
    """Return the machine, the versions, the commit and the day, for a results file."""
    return {
        "commit": commit(),
        "date": datetime.now(UTC).date().isoformat(),
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


def stored(target: Path) -> dict[str, Any]:
    """Return a report to which parts are added; an empty one if the file is of another machine or code.

    The machine, the libraries and the commit are stated once for all parts, and the day is that of the last.
    """
    report: dict[str, Any] = json.loads(target.read_text()) if target.exists() else {}
    now = describe()
    same = report.get("machine", {}) | {"date": now["date"]} == now
    return report if same and now["commit"] and not now["commit"].endswith("-dirty") else {}


class Others:
    """Measures how much of the processor other programs took since it was made."""

    def __init__(self) -> None:
        self._start = self._now()

    def share(self) -> float | None:
        """Return their share of all cores; None where the system does not say. Children must have ended."""
        start, now = self._start, self._now()
        if start is None or now is None:
            return None
        all_of_it, own, wall = (b - a for a, b in zip(start, now, strict=True))
        return max(0.0, (all_of_it - own) / (wall * (os.cpu_count() or 1)))

    def _now(self) -> tuple[float, float, float] | None:
        """Return seconds of processor time of all programs and of this one, and of the clock."""
        stat = Path("/proc/stat")
        if not stat.exists():
            return None
        user, nice, system, _, _, irq, softirq, steal = map(
            int, stat.read_text().split("\n", 1)[0].split()[1:9]
        )
        ticks = user + nice + system + irq + softirq + steal
        return ticks / os.sysconf("SC_CLK_TCK"), sum(os.times()[:4]), time.perf_counter()


def commit() -> str | None:
    """Return the commit that is measured, with "-dirty" if files other than results have changed since."""
    here = Path(__file__).parent
    git = partial(subprocess.run, cwd=here.parent, capture_output=True, text=True, check=True)
    try:
        found = git(["git", "rev-parse", "--short=7", "HEAD"]).stdout.strip()
        # A benchmark that writes its file part by part would else call itself changed.
        changed = git(
            ["git", "status", "--porcelain", "-uno", "--", ".", ":!benchmarks/results"]
        ).stdout
    except (OSError, subprocess.CalledProcessError):  # no git, or no repository
        from clusterica.experiments._provenance import source_commit

        built_from = source_commit().name
        return built_from and built_from[:7]
    return f"{found}-dirty" if changed else found


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
