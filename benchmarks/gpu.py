"""What the comparisons on a CUDA device share: time by events, contenders in turns, and the ceilings."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import Any

import torch

from benchmarks.machine import describe

DTYPES = {"float32": torch.float32, "tf32": torch.float32, "bfloat16": torch.bfloat16}
DTYPES["float16"] = torch.float16


def milliseconds(run: Callable[[], Any]) -> float:
    """Return the time of one run between two events."""
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    run()
    stop.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(stop))


def that_work(runs: dict[Any, Callable[[], Any]]) -> dict[Any, Callable[[], Any]]:
    """Return the runs that do not fail when they are tried; one that fails is named, and left out."""
    work = {}
    for name, run in runs.items():
        try:
            run()
        except Exception as error:  # of any kind: the others are still measured
            print(f"{name}: {type(error).__name__}: {str(error)[:300]}", flush=True)
        else:
            work[name] = run
    return work


def in_turns(runs: dict[Any, Callable[[], Any]], repeats: int) -> dict[Any, list[float]]:
    """Return the times of all runs, which take turns, after one turn to compile and to warm up."""
    times: dict[Any, list[float]] = {name: [] for name in runs}
    for turn in range(repeats + 1):
        for name, run in runs.items():
            elapsed = milliseconds(run)
            if turn:
                times[name].append(elapsed)
    return times


def product_ceilings(X: torch.Tensor, C: torch.Tensor, repeats: int) -> dict[str, float]:
    """Return the milliseconds of the bare product of all rows and centres, in every precision."""
    out: dict[str, float] = {}
    for precision, dtype in DTYPES.items():
        rows, centers = X.to(dtype), C.to(dtype)
        # A block of scores at a time: all of them may not fit.
        block = max(1, 2**31 // (2 * len(C)))
        scores = torch.empty((min(block, len(X)), len(C)), dtype=dtype, device=X.device)

        def product(rows=rows, centers=centers, scores=scores, block=block) -> None:
            for i in range(0, len(rows), block):
                part = rows[i : i + block]
                torch.mm(part, centers.T, out=scores[: len(part)])

        before = torch.backends.cuda.matmul.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
        out[precision] = median(in_turns({precision: product}, repeats)[precision])
        torch.backends.cuda.matmul.allow_tf32 = before
    return out


def copy_rate(repeats: int = 5) -> dict[str, float]:
    """Return GB/s: of a copy on the device (read and written), and of the link to it and back."""
    source = torch.rand(2**28, device="cuda")
    target = torch.empty_like(source)
    host = torch.empty(2**28, pin_memory=True)
    runs = {
        "device": lambda: target.copy_(source),
        "to device": lambda: target.copy_(host, non_blocking=True),
        "to host": lambda: host.copy_(source, non_blocking=True),
    }
    times = in_turns(runs, repeats)
    moved = {"device": 2 * source.nbytes, "to device": source.nbytes, "to host": source.nbytes}
    return {name: 1e-6 * moved[name] / median(values) for name, values in times.items()}


def report() -> dict[str, Any]:
    """Return what was measured where: the GPU, and the machine with its versions and the commit."""
    return {
        "gpu": torch.cuda.get_device_name(),
        "capability": torch.cuda.get_device_capability(),
        "machine": describe(),
    }
