"""Contenders that cluster text by direction: each in a process of its own, as in ``benchmarks.contenders``.

The text is that of the docstrings of installed packages, which every machine has and nobody has to download:
functions and classes with at least thirty words, and the package as the label of a document.
"""

from __future__ import annotations

import ast
import importlib.util
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import normalized_mutual_info_score
from sklearn.preprocessing import normalize

from benchmarks.contenders import Run, RunOf, serve

PACKAGES = ("numpy", "scipy", "sklearn", "pandas", "matplotlib", "torch")
EMBEDDING = 128  # dimensions of the dense rows, as of a small sentence embedding


class Text:
    """Documents as TF-IDF (CSR) and as dense embeddings, all at unit length, with the package of each."""

    def __init__(self, n_documents: int) -> None:
        found = [(text, package) for package in PACKAGES for text in docstrings(package)]
        order = np.random.default_rng(0).permutation(len(found))[:n_documents]
        texts, labels = zip(*(found[i] for i in order), strict=True)
        self.labels = np.array(labels)
        tfidf = TfidfVectorizer(
            stop_words="english", min_df=5, sublinear_tf=True, token_pattern=r"[a-z_]{3,}"
        )
        self.csr = tfidf.fit_transform(texts).astype(np.float32)
        reduced = TruncatedSVD(EMBEDDING, random_state=0).fit_transform(self.csr)
        self.dense = np.ascontiguousarray(normalize(reduced), dtype=np.float32)

    def rows(self, kind: str) -> Any:
        """Return the rows of a kind, "TF-IDF" or "embeddings"."""
        return self.csr if kind == "TF-IDF" else self.dense


def docstrings(package: str) -> list[str]:
    """Return the docstrings of a package, read from its files without importing them."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return []
    found = []
    for path in sorted(Path(spec.submodule_search_locations[0]).rglob("*.py")):
        if "test" in str(path):
            continue
        tree = ast.parse(path.read_text(encoding="utf-8", errors="ignore"))
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                text = ast.get_docstring(node) or ""
                if len(text.split()) >= 30:
                    found.append(text)
    return found


def clusterica_spherical(X: Text, C: np.ndarray, kind: str) -> Run:
    """Return a fit of SphericalKMeans from the chosen rows, or of the mixture."""
    from clusterica.cluster import SphericalKMeans, VonMisesFisherMixture

    what, _, rows = kind.partition(": ")
    data = X.rows(rows)
    start = _rows_at(data, C)

    def run(n: int) -> dict[str, Any]:
        started = time.perf_counter()
        if what == "mixture":
            model = VonMisesFisherMixture(len(C), concentration="tied", init=start, max_iter=n)
            labels = model.fit(data).predict(data)
        else:
            labels = SphericalKMeans(len(C), init=start, max_iter=n, tol=0).fit(data).labels_
        return _judged(X, data, labels, time.perf_counter() - started)

    return run


def sklearn_spherical(X: Text, C: np.ndarray, kind: str) -> Run:
    """Return a fit of scikit-learn's KMeans to rows at unit length, which is nearly spherical."""
    from sklearn.cluster import KMeans

    data = X.rows(kind.partition(": ")[2])
    start = _rows_at(data, C)

    def run(n: int) -> dict[str, Any]:
        started = time.perf_counter()
        labels = KMeans(len(C), init=start, n_init=1, max_iter=n, tol=0).fit(data).labels_
        return _judged(X, data, labels, time.perf_counter() - started)

    return run


def faiss_spherical(X: Text, C: np.ndarray, kind: str) -> Run:
    """Return a training of faiss.Kmeans(spherical=True); it takes dense rows only."""
    import faiss

    faiss.omp_set_num_threads(2)
    data = X.rows(kind.partition(": ")[2])
    start = _rows_at(data, C)

    def run(n: int) -> dict[str, Any]:
        started = time.perf_counter()
        model = faiss.Kmeans(
            data.shape[1],
            len(C),
            niter=n,
            spherical=True,
            max_points_per_centroid=len(data),
            min_points_per_centroid=1,
            seed=0,
        )
        model.train(data, init_centroids=start)
        labels = model.index.search(data, 1)[1][:, 0]
        return _judged(X, data, labels, time.perf_counter() - started)

    return run


def _rows_at(data: Any, C: np.ndarray) -> np.ndarray:
    picked = data[C.astype(int)]
    return np.asarray(picked.todense() if hasattr(picked, "todense") else picked)


def _judged(X: Text, data: Any, labels: np.ndarray, seconds: float) -> dict[str, Any]:
    """Return the time, the mean cosine of documents with their cluster, and how labels agree."""
    labels = np.asarray(labels)
    total = 0.0
    for j in np.unique(labels):
        total += float(np.linalg.norm(np.asarray(data[labels == j].sum(axis=0))))
    return {
        "seconds": seconds,
        "cosine": total / len(labels),
        "agreement": float(normalized_mutual_info_score(X.labels, labels)),
        "n_documents": int(data.shape[0]),
        "n_features": int(data.shape[1]),
    }


FITS: dict[str, RunOf] = {
    "clusterica": clusterica_spherical,
    "sklearn": sklearn_spherical,
    "faiss": faiss_spherical,
}


def _text_and_start(request: dict[str, Any]) -> tuple[Any, np.ndarray]:
    """Return the documents, and the numbers of those that the clusters start from."""
    text = Text(request["n_documents"])
    rng = np.random.default_rng(1)
    return text, rng.choice(len(text.labels), request["n_clusters"], replace=False)


if __name__ == "__main__":
    serve(FITS[sys.argv[1]], _text_and_start)
