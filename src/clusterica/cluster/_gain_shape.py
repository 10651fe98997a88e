"""Gain-shape K-means: minimise ``sum_i |x_i - s_i d_j(i)|^2`` over unit vectors d and signed gains s."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar

from clusterica.arrays import Array, Interval, transform_rows
from clusterica.cluster._base import BaseKMeans
from clusterica.ops.assign import scores
from clusterica.ops.rules import GainShape


class GainShapeKMeans(BaseKMeans):
    r"""The K-means of Coates & Ng for image patches: unit vectors, each with a gain of either sign.

    It is gain-shape vector quantisation, equation (1) of [1]_, which the paper also calls spherical
    K-means: every row is explained by one unit vector times a gain,

    .. math::
        \min_{D, s} \sum_i \|x_i - s_i d_{j(i)}\|^2, \qquad
        j(i) = \arg\max_j |d_j^\top x_i|, \quad s_i = d_{j(i)}^\top x_i,

    with the damped update :math:`d_j \leftarrow \sum_{i \in j} s_i x_i + \lambda d_j`, scaled to unit
    length. On white data the vectors point along sparse directions, as the filters of ICA do. A row and
    its negative belong to the same cluster: for text and embeddings take
    :class:`~clusterica.cluster.SphericalKMeans`. Dense and CSR input.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    init : {"gaussian", "orthonormal", "orthogonal", "k-means++", "rows"}, array or callable, \
            default="gaussian"
        Where the centres start: random directions, random orthonormal axes, such axes after they were
        turned towards the sparse directions of the data, rows chosen far apart, rows at random, the
        centres themselves, or a function called as ``init(X, n_clusters, random_state)``. Centres
        beyond the number of axes are random directions.
    damping : float, default=1.0
        Weight of the old centre in an update; it keeps small clusters from jumping about.
    n_init : int, default=1
        Number of starts (one if the centres are given), of which the one with the smallest inertia is kept.
    max_iter : int, default=100
        Maximum number of iterations of a start; ten are often enough [1]_.
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
        Sum of squared errors :math:`\|x_i - s_i d_j\|^2`.
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
    CosineKMeans : Centres in pairs of both signs.

    Notes
    -----
    A row of zeros has no direction. It moves no centre and adds nothing to the inertia; its label is 0,
    since ties go to the first centre. Flat image patches are such rows after contrast normalisation.

    References
    ----------
    .. [1] A. Coates and A. Y. Ng, "Learning feature representations with K-means", 2012.

    Examples
    --------
    >>> import numpy as np
    >>> from clusterica.cluster import GainShapeKMeans
    >>> X = np.random.default_rng(0).laplace(size=(10_000, 2))
    >>> D = GainShapeKMeans(n_clusters=2, random_state=0).fit(X).cluster_centers_
    >>> np.sort(np.abs(D).max(axis=1)).round(2)  # both lie on an axis
    array([1., 1.])
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BaseKMeans._parameter_constraints,
        "damping": [Interval(Real, 0, None, closed="left")],
    }

    # Eleven parameters: the ten of KMeans and the damping of its updates.
    def __init__(
        self,
        n_clusters: int = 8,
        *,
        init: Any = "gaussian",
        damping: float = 1.0,
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
        self.damping = damping
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.batch_size = batch_size
        self.empty = empty
        self.min_count = min_count
        self.compute_labels = compute_labels
        self.random_state = random_state

    @property
    def _rule(self) -> GainShape:
        return GainShape(damping=self.damping)

    def transform(self, X: Any) -> Array:
        """Return the response of every centre to every row, their inner product.

        Parameters
        ----------
        X : as in fit, (n_samples, n_features)
            The data.

        Returns
        -------
        responses : array of shape (n_samples, n_clusters)
        """
        rows, C, _ = self._for_new_rows(X)
        return transform_rows(scores, rows, C)
