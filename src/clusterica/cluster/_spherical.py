"""Spherical K-means: maximise ``sum_i cos(x_i, c_j(i))`` over unit centres c, for text and embeddings."""

from __future__ import annotations

from typing import Any

from clusterica.arrays import Array, transform_rows
from clusterica.cluster._base import BaseKMeans
from clusterica.ops.assign import cosines
from clusterica.ops.rules import DIRECTION


class SphericalKMeans(BaseKMeans):
    r"""Spherical K-means by cosine, for text and embeddings [1]_.

    Rows count by their direction only. The centre with the largest cosine wins,

    .. math::
        \max_C \sum_i \max_j \frac{c_j^\top x_i}{\|x_i\|}, \qquad \|c_j\| = 1,

    and a centre is the direction of the sum of its rows, each scaled to unit length. Dense and CSR input.
    The K-means of Coates & Ng for image patches, which they call spherical too, gives a row and its
    negative to the same cluster: it is :class:`~clusterica.cluster.GainShapeKMeans`.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    init : {"gaussian", "orthonormal", "orthogonal", "k-means++", "rows"}, array or callable, \
            default="k-means++"
        Where the centres start: random directions, random orthonormal axes of both signs, such axes after
        they were turned towards the sparse directions of the data, rows chosen far apart, rows at random,
        the centres themselves, or a function called as ``init(X, n_clusters, random_state)``. Centres
        beyond the number of axes are random directions.
    n_init : int, default=1
        Number of starts (one if the centres are given), of which the one with the smallest inertia is kept.
    max_iter : int, default=100
        Maximum number of iterations of a start.
    tol : float, default=1e-4
        A start ends when an iteration changes neither the inertia nor (in squared length) the centres
        by more than this, relative to their size.
    batch_size : int or None, default=None
        Update the centres after every batch of this many rows, not once per pass.
    empty : {"data", "keep", "drop"}, default="data"
        What happens to a centre without rows. "data": it takes the direction of a row far from the other
        centres, chosen as in k-means++. "keep": it stays as it is. "drop": it is dropped at the end, so
        that there are fewer clusters than asked for.
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
        Unit vectors, in the library and on the device of the data.
    labels_ : integer array of shape (n_samples,)
        Cluster of every row.
    counts_ : array of shape (n_clusters,)
        Number of rows, or total weight, of every cluster.
    inertia_ : float
        Sum of one minus cosine.
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
    GainShapeKMeans : Signed gains, for image patches.

    Notes
    -----
    A row of zeros has no direction. It moves no centre and adds nothing to the inertia; its label is 0,
    since ties go to the first centre.

    References
    ----------
    .. [1] I. S. Dhillon and D. S. Modha, "Concept decompositions for large sparse text data using
       clustering", 2001.

    Examples
    --------
    >>> import numpy as np
    >>> from clusterica.cluster import SphericalKMeans
    >>> X = np.array([[1.0, 0.0], [9.0, 0.5], [0.0, 2.0], [-0.1, 1.0]])
    >>> SphericalKMeans(n_clusters=2, random_state=0).fit_predict(X).tolist() in ([0, 0, 1, 1], [1, 1, 0, 0])
    True
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        init: Any = "k-means++",
        n_init: int = 1,
        max_iter: int = 100,
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

    _rule = DIRECTION

    def transform(self, X: Any) -> Array:
        """Return the cosine of every row and every centre.

        Parameters
        ----------
        X : as in fit, (n_samples, n_features)
            The data.

        Returns
        -------
        cosines : array of shape (n_samples, n_clusters)
            0 for a row of zeros.
        """
        rows, C, _ = self._for_new_rows(X)
        return transform_rows(cosines, rows, C)
