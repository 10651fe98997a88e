"""ClusterICA with maximum likelihood on a CUDA device, against the products that its walks need.

A fit of 64 mixed channels, with and without fused kernels, in turns. The products are those of the
evaluations alone: four of (rows x channels) by (channels x channels) for each pass over the rows.
"""

from __future__ import annotations

import argparse
import json
from statistics import median
from typing import Any
from unittest.mock import patch

import torch

from benchmarks.gpu import copy_rate, in_turns, report, that_work
from benchmarks.kmeans import RESULTS
from clusterica import config_context
from clusterica.ica import ClusterICA, _likelihood
from clusterica.ica._likelihood import means_of
from clusterica.metrics import amari_distance

SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {"gpu_kernels": None},
    "fused": {},
}


def mixed(n: int, d: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return Laplace sources, mixed, and the mixing matrix."""
    torch.manual_seed(0)
    uniform = torch.rand(n, d, device="cuda") - 0.5
    sources = -torch.sign(uniform) * torch.log1p(-2 * uniform.abs() * (1 - 1e-6))
    A = torch.randn(d, d, device="cuda")
    return sources @ A.T, A


def main() -> None:
    """Measure and write ``results/ica-gpu.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--channels", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--output", default=str(RESULTS / "ica-gpu.json"))
    options = parser.parse_args()
    X, A = mixed(options.rows, options.channels)
    found: dict[str, Any] = {}

    def fit(name: str) -> None:
        walks = 0.0

        def counted(fn: Any, rows: Any, *params: Any) -> Any:
            nonlocal walks
            walks += rows.n_rows / len(X)  # some walks are over a sample
            return means_of(fn, rows, *params)

        with config_context(**SETTINGS[name]), patch.object(_likelihood, "means_of", counted):
            model = ClusterICA(refine="ml", random_state=0).fit(X)
        error = amari_distance(model.components_.cpu().numpy(), A.cpu().numpy())
        bits = float(model.components_.double().sum())
        found[name] = {
            "walks": walks,
            "error": float(error),
            "same_bits": found.get(name, {}).get("bits", bits) == bits,
            "bits": bits,
        }

    def product() -> None:
        for i in range(0, len(X), 2**20):
            part = X[i : i + 2**20]
            part.T @ (part @ A)

    runs = that_work({name: lambda name=name: fit(name) for name in SETTINGS})
    runs["product"] = product
    times = {name: median(values) for name, values in in_turns(runs, options.repeats).items()}
    for name in found:
        # The product above is two of the four.
        products = 2 * times["product"] * found[name]["walks"]
        found[name] |= {"ms": times[name], "products_ms": products}
        print(name, json.dumps(found[name]), flush=True)
    result = report() | {"copies_gb_s": copy_rate(), "shape": tuple(X.shape)}
    result |= {"repeats": options.repeats, "fits": found}
    with open(options.output, "w") as file:
        file.write(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
