"""Clusters of text beside those of other libraries."""

from __future__ import annotations

from typing import Any

from benchmarks.rst import heading, provenance, rst_table

MARKS = "begin of text", "end of text"  # docs/guide/text.rst includes what is between them


def section(report: dict[str, Any]) -> list[str]:
    """Return the comparison of clusters of text."""
    lines = [
        *heading("Text on the CPU"),
        f".. {MARKS[0]}",
        "",
        f"{report['n_documents']:,} docstrings of numpy, scipy, scikit-learn, pandas, matplotlib and torch, "
        f"{report['n_clusters']} clusters from the same documents, {report['iterations']} iterations (the "
        f"mixture stops when it has converged), float32, {report['threads']} threads; "
        f"medians of {report['repeats']}, in turns. TF-IDF is a CSR matrix, which faiss does not take; "
        "embeddings are its first 128 singular directions, at unit length. *Cosine* is the mean cosine of "
        "documents with the direction of their cluster, which spherical K-means maximises; *agreement* is "
        "the normalised mutual information of clusters and packages.",
        "",
        *provenance(report),
    ]
    table = [
        [
            f"{row['input']}, {row['n_features']:,}",
            row["method"],
            f"{row['seconds']:.2f} s",
            f"{row['cosine']:.3f}",
            f"{row['agreement']:.3f}",
            f"{row['extra_mib']:.0f} MiB",
        ]
        for row in report["rows"]
    ]
    columns = ["rows, features", "method", "fit and labels", "cosine", "agreement", "memory"]
    return [*lines, *rst_table(columns, table), "", f".. {MARKS[1]}", ""]
