"""Euclidean K-means: minimise ``sum_i min_j |x_i - c_j|^2``."""

from __future__ import annotations

from typing import Any

from clusterica.arrays import Array, transform_rows
from clusterica.cluster._base import BaseKMeans
from clusterica.ops.assign import distances
from clusterica.ops.rules import EUCLIDEAN


class KMeans(BaseKMeans):
    r"""K-means clustering by Lloyd's algorithm.

    Finds centres :math:`c_j` that minimise :math:`\sum_i w_i \min_j \|x_i - c_j\|^2`.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    init : {"k-means++", "rows", "gaussian", "orthonormal", "orthogonal"}, array or callable, \
            default="k-means++"
        Where the centres start. "k-means++" chooses rows that are far apart (from a random sample of
        them where there are very many), "rows" takes rows at random. "gaussian", "orthonormal" and
        "orthogonal" are meant for white data: random directions, plus and minus random orthonormal
        axes, and such axes after they were turned towards the sparse directions of the data, at the
        typical spread around the mean; more centres than twice the features are scattered at
        random. An array gives the centres, shape (n_clusters, n_features); a callable is called as
        ``init(X, n_clusters, random_state)``.
    n_init : int, default=1
        Number of starts (one if the centres are given), of which the one with the smallest inertia is kept.
    max_iter : int, default=300
        Maximum number of iterations (passes over the data) of a start.
    tol : float, default=1e-4
        A start ends when an iteration changes neither the inertia nor (in squared length) the centres
        by more than this, relative to their size.
    batch_size : int or None, default=None
        Update the centres after every batch of this many rows, not once per pass.
    empty : {"data", "keep", "drop"}, default="data"
        What happens to a centre without rows. "data": it moves to a row far from the other centres,
        chosen as in k-means++. "keep": it stays where it is. "drop": it is dropped at the end, so that
        there are fewer clusters than asked for.
    min_count : float, default=1
        With ``empty="drop"``: clusters that hold less weight than this at the end are dropped.
    compute_labels : bool, default=True
        Whether to assign all rows once more to the final centres. False saves that pass:
        ``labels_`` is not set, and ``counts_`` and ``inertia_`` are those of the last iteration.
    random_state : int, RandomState, Generator or None, default=None
        Seed of all random draws, the same on every device.

    Attributes
    ----------
    cluster_centers_ : array of shape (n_clusters, n_features)
        The centres, in the library and on the device of the data.
    labels_ : integer array of shape (n_samples,)
        Cluster of every row.
    counts_ : array of shape (n_clusters,)
        Number of rows, or total weight, of every cluster.
    inertia_ : float
        Sum of squared distances of rows to their centre, weighted.
    objective_history_ : ndarray of shape (n_iter_ + 1,)
        Inertia before every iteration, and at the end (not the latter if not compute_labels).
    n_iter_ : int
        Iterations of the start that was kept.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X has column names.

    See Also
    --------
    SphericalKMeans : By cosine, for text and embeddings.
    GainShapeKMeans : Unit vectors with signed gains, for filters of image patches.
    CosineKMeans : Antipodal pairs of unit centres, for independent sources.

    Examples
    --------
    >>> import numpy as np
    >>> from clusterica.cluster import KMeans
    >>> X = np.array([[1, 2], [1, 4], [1, 0], [10, 2], [10, 4], [10, 0]])
    >>> kmeans = KMeans(n_clusters=2, random_state=0).fit(X)
    >>> kmeans.inertia_
    16.0
    >>> sorted(kmeans.cluster_centers_.tolist())
    [[1.0, 2.0], [10.0, 2.0]]
    """

    _rule = EUCLIDEAN

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        init: Any = "k-means++",
        n_init: int = 1,
        max_iter: int = 300,
        tol: float = 1e-4,
        batch_size: int | None = None,
        empty: str = "data",
        min_count: float = 1,
        compute_labels: bool = True,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.batch_size = batch_size
        self.empty = empty
        self.min_count = min_count
        self.compute_labels = compute_labels
        self.random_state = random_state

    def transform(self, X: Any) -> Array:
        """Return the distance of every row to every centre.

        Parameters
        ----------
        X : as in fit, (n_samples, n_features)
            The data.

        Returns
        -------
        distances : array of shape (n_samples, n_clusters)
        """
        rows, C, shift = self._for_new_rows(X)
        return transform_rows(distances, rows, C, shift)
