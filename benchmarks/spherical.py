"""Clusters of text by direction: SphericalKMeans and the mixture against scikit-learn and faiss.

Docstrings of installed packages as TF-IDF (CSR), and as dense rows of 128 dimensions. Two threads, float32,
the same documents to start from; all contenders are loaded at once and take turns.
"""

from __future__ import annotations

import argparse
import json
from importlib.util import find_spec
from statistics import median
from typing import Any

from benchmarks.kmeans import RESULTS
from benchmarks.machine import Others, describe
from benchmarks.process import Contender

ITERATIONS = 20
JOBS = [
    ("clusterica", "k-means: TF-IDF", "clusterica SphericalKMeans"),
    ("clusterica", "mixture: TF-IDF", "clusterica VonMisesFisherMixture"),
    ("sklearn", "k-means: TF-IDF", "scikit-learn KMeans, unit rows"),
    ("clusterica", "k-means: embeddings", "clusterica SphericalKMeans"),
    ("clusterica", "mixture: embeddings", "clusterica VonMisesFisherMixture"),
    ("sklearn", "k-means: embeddings", "scikit-learn KMeans, unit rows"),
    ("faiss", "k-means: embeddings", "faiss Kmeans(spherical=True)"),
]
# Those of them that are installed.
JOBS = [job for job in JOBS if find_spec(job[0])]


def measure(n_documents: int, n_clusters: int, repeats: int) -> list[dict[str, Any]]:
    """Time all contenders in turns."""
    contenders = {
        name: Contender(name, {}, module="benchmarks.text_contenders")
        for name in {j[0] for j in JOBS}
    }
    answers: dict[tuple[str, str, str], list[dict[str, Any]]] = {job: [] for job in JOBS}
    try:
        for contender in contenders.values():
            contender.ask(do="data", n_documents=n_documents, n_clusters=n_clusters)
        for turn in range(-1, repeats):  # the first turn warms up
            for job in JOBS:
                answer = contenders[job[0]].ask(
                    do="run", kind=job[1], iterations=2 if turn < 0 else ITERATIONS
                )
                if turn >= 0:
                    answers[job].append(answer)
    finally:
        for contender in contenders.values():
            contender.close()
    return [
        {
            "input": kind.partition(": ")[2],
            "method": method,
            "n_documents": given[0]["n_documents"],
            "n_features": given[0]["n_features"],
            "seconds": median(a["seconds"] for a in given),
            "cpu_seconds": median(a["cpu_seconds"] for a in given),
            "cosine": given[0]["cosine"],
            "agreement": given[0]["agreement"],
            "extra_mib": max(a["extra_bytes"] for a in given) / 2**20,
            "all_seconds": sorted(a["seconds"] for a in given),
        }
        for (_, kind, method), given in answers.items()
    ]


def main() -> None:
    """Measure and write ``results/spherical-cpu.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--clusters", type=int, default=100)
    parser.add_argument(
        "--quick", action="store_true", help="a fraction of the documents, for a try"
    )
    options = parser.parse_args()
    n, k = (2000, 20) if options.quick else (options.documents, options.clusters)
    others = Others()
    rows = measure(n, k, options.repeats)
    share = others.share()
    for row in rows:
        print({key: round(v, 3) if isinstance(v, float) else v for key, v in row.items()})
    report = {
        "machine": describe(),
        "threads": 2,
        "iterations": ITERATIONS,
        "repeats": options.repeats,
        # As many as there are, where that is fewer.
        "n_documents": rows[0]["n_documents"],
        "n_clusters": k,
        "share_of_others": share,
        "rows": rows,
    }
    RESULTS.mkdir(exist_ok=True)
    target = RESULTS / ("spherical-quick.json" if options.quick else "spherical-cpu.json")
    target.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
