"""The RISS test of a clusterer B: B(U * S) = U * B(S) for rotations U, and B(S) → {e_j, -e_j}."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from clusterica.arrays import as_generator, to_host
from clusterica.cluster import with_n_centers
from clusterica.datasets import make_sparse_sources
from clusterica.metrics._recovery import checked_unit_rows, matched_distance, recovery_distance

# A missed axis gives a distance near 1; K-means on 10,000 rows of two Laplace sources gives about 0.03
# (Vinnikov & Shalev-Shwartz, table 1).
THRESHOLD = 0.1


@dataclass(frozen=True, repr=False)
class RissReport:
    """What :func:`check_riss` measured; all distances are those of :func:`recovery_distance`."""

    clusterer: str
    """The clusterer, with the parameters that were set."""
    source: str
    """Distribution of the sources."""
    n_features: int
    """Number of sources, half the number of centroids."""
    n_samples: int
    """Rows of a draw."""
    equivariances: tuple[float, ...]
    """Per draw: distance of the turned data's centroids from the turned centroids."""
    axis_distances: tuple[float, ...]
    """Per draw: distance of the centroids from the axes of the sources, both signs of each."""

    @property
    def equivariance(self) -> float:
        """Property 1 of the definition: the worst draw's distance under a rotation."""
        return max(self.equivariances)

    @property
    def axis_distance(self) -> float:
        """Property 2 of the definition: the worst draw's distance from the axes."""
        return max(self.axis_distances)

    @property
    def passed(self) -> bool:
        """Whether both distances are below 0.1."""
        return self.equivariance < THRESHOLD and self.axis_distance < THRESHOLD

    def __repr__(self) -> str:
        lines = [
            f"RISS test of {self.clusterer}",
            f"{len(self.equivariances)} draws of {self.n_samples} rows, "
            f"{self.n_features} {self.source} sources, {2 * self.n_features} centroids",
            _line("1. turns with the data", self.equivariances),
            _line("2. lies on the axes   ", self.axis_distances),
            f"passed: {self.passed} (both below {THRESHOLD})",
        ]
        return "\n".join(lines)


def check_riss(
    clusterer: Any,
    *,
    n_features: int,
    n_samples: int,
    source: Any = "laplace",
    df: float = 5.0,
    n_draws: int = 5,
    random_state: Any = None,
) -> RissReport:
    r"""Test a clusterer for the two properties that make it solve ICA.

    A clusterer B that turns n points into :math:`2d` centroids is called RISS ("rotation invariant and
    sparse sensitive") in [1]_, definition 1, if

    1. :math:`B(U * S) = U * B(S)` for all rows S and every orthogonal matrix U;
    2. on rows of independent sparse sources its centroids are the axes, both signs of each.

    Whitening followed by such a clusterer recovers the filters of ICA. Each draw makes rows S and
    a random U, fits the clusterer on S and, from the same seed, on U * S, scales all centroids to
    unit length, and measures how far the two fits are from each other, and the first one from the
    axes.

    Parameters
    ----------
    clusterer : estimator
        Any clusterer with scikit-learn's interface and ``cluster_centers_`` after fit. Clones are
        fitted, with ``2 * n_features`` centroids (see :func:`clusterica.cluster.with_n_centers`) and,
        if its ``random_state`` is None, a seed of the draw.
    n_features : int
        Number of sources d.
    n_samples : int
        Rows of a draw. The random part of the distance from the axes decreases with their number.
    source : str or frozen scipy.stats distribution, default="laplace"
        Distribution of the sources: "laplace", "hypsecant", "logistic", "t", "cauchy", "uniform", "gaussian",
        as in :func:`clusterica.datasets.make_sparse_sources`, or your own.
    df : float, default=5.0
        Degrees of freedom of the source "t".
    n_draws : int, default=5
        Number of draws.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the draws and of the clusterer.

    Returns
    -------
    RissReport
        With ``equivariance`` and ``axis_distance``, of the worst draw, ``passed``, and the values
        of each draw. Its repr is a short text.

    Notes
    -----
    Property 1 holds exactly for an ideal clusterer, which finds the global optimum. A real one starts
    from random centroids that do not rotate with the data: if it has many optima, two fits end in
    different ones, and the test fails. That is intended: an ICA that depends on the start has not found
    the sources. On Gaussian rows any clusterer with random starts fails.

    References
    ----------
    .. [1] A. Vinnikov and S. Shalev-Shwartz, "K-means recovers ICA filters when independent components
       are sparse", 2014.

    Examples
    --------
    >>> from clusterica.cluster import CosineKMeans
    >>> from clusterica.metrics import check_riss
    >>> report = check_riss(CosineKMeans(), n_features=3, n_samples=5000, random_state=0)
    >>> report.passed
    True
    >>> check_riss(
    ...     CosineKMeans(), n_features=3, n_samples=5000, source="gaussian", random_state=0
    ... ).passed
    False
    """
    _check_count("n_features", n_features, least=1)
    # There are 2 n_features centroids, and each needs a row.
    _check_count("n_samples", n_samples, least=2 * n_features)
    _check_count("n_draws", n_draws, least=1)
    rng = as_generator(random_state)
    equivariances, axis_distances = [], []
    for _ in range(n_draws):
        X, S, U = make_sparse_sources(
            n_samples, n_features, distribution=source, df=df, mixing="orthogonal", random_state=rng
        )
        # The same seed for both fits, so that only the rotation differs.
        seed = int(rng.integers(2**31))
        C = _centroids(clusterer, S, seed=seed)
        turned = _centroids(clusterer, X, seed=seed)
        # Property 1 with signs: a turned centroid is not its negative.
        equivariances.append(matched_distance(turned, C @ U.T, signed=True))
        # Property 2 against both signs of each axis.
        axis_distances.append(recovery_distance(C, np.eye(n_features)))
    return RissReport(
        # scikit-learn breaks a long repr into lines.
        clusterer=" ".join(repr(clusterer).split()),
        source=source_name(source, df),
        n_features=n_features,
        n_samples=n_samples,
        equivariances=tuple(equivariances),
        axis_distances=tuple(axis_distances),
    )


def _centroids(clusterer: Any, X: np.ndarray, *, seed: int) -> np.ndarray:
    """Fit a clone and return its 2d centroids as unit rows."""
    model = with_n_centers(clusterer, 2 * X.shape[1], random_state=seed).fit(X)
    name = type(clusterer).__name__
    centers = getattr(model, "cluster_centers_", None)
    if centers is None:
        raise TypeError(
            f"{name} has no cluster_centers_ after fit, which the test compares; give a clusterer "
            "with centroids, or wrap this one in a class whose fit sets cluster_centers_, of shape "
            "(n_clusters, n_features)."
        )
    # The length of a centroid says nothing about its axis.
    C = checked_unit_rows(f"cluster_centers_ of {name}", to_host(centers))
    if C.shape != (2 * X.shape[1], X.shape[1]):
        raise ValueError(
            f"{name} found cluster_centers_ of shape {C.shape} in {X.shape[1]} features; the test is "
            f"about 2 * n_features = {2 * X.shape[1]} centroids: set its parameters so that it finds "
            "as many."
        )
    return C


def source_name(source: Any, df: float) -> str:
    """Return the name of the distribution, such as ``t(5)``."""
    if source == "t":
        return f"t({df:g})"
    if isinstance(source, str):
        return source
    arguments = [repr(value) for value in source.args]
    arguments += [f"{key}={value!r}" for key, value in source.kwds.items()]
    return f"{source.dist.name}({', '.join(arguments)})"


def _line(what: str, distances: tuple[float, ...]) -> str:
    verdict = "holds" if max(distances) < THRESHOLD else "fails"
    return f"{what}  {verdict}: worst {max(distances):.4f}, median {median(distances):.4f}"


def _check_count(name: str, value: Any, *, least: int) -> None:
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or value < least:
        remedy = "; give at least one row for each centroid" if name == "n_samples" else ""
        raise ValueError(
            f"{name} is {value!r}; it must be a whole number of at least {least}{remedy}."
        )
