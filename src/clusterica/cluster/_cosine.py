"""Cosine K-means: antipodal pairs of unit centres that maximise ``mean_i max_j <x_i, c_j>``."""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar

from clusterica.arrays import Array, Interval, transform_rows
from clusterica.cluster._base import BaseKMeans
from clusterica.ops.assign import scores_of_both_signs
from clusterica.ops.rules import Axis


class CosineKMeans(BaseKMeans):
    r"""Cosine K-means with antipodal pairs of centres.

    Maximises equation (4) of [1]_,

    .. math::
        \max_c \frac1m \sum_i \max_j \langle x_i, c_j \rangle
        \quad\text{where}\quad \|c_j\| = 1, \; c_{j + k} = -c_j .

    A row belongs to the pair with the largest :math:`|\langle x, c_j \rangle|`, and
    :math:`c_j \leftarrow \sum_{i \in j} \mathrm{sign}\langle x_i, c_j\rangle\, x_i`, scaled to unit
    length: the sum that the objective is linear in. On white data from sparse independent sources,
    with as many axes as features, the axes are the directions of the sources.

    Parameters
    ----------
    n_axes : int or None, default=None
        Number of axes, each of which is a pair of opposite centres, so that there are ``2 * n_axes``
        clusters. None takes one for every feature.
    orthogonal : bool, default=False
        Keep the axes orthogonal: they become the polar factor of the signed sums. On white data the
        answer is orthogonal, and the constraint lowers its error. At most as many axes as features.
    init : {"orthogonal", "orthonormal", "gaussian", "k-means++", "rows"}, array or callable, \
            default="orthogonal"
        Where the centres start. "orthogonal" takes random orthonormal axes and iterates under the
        orthogonal constraint before the free iterations begin; it reaches the global optimum on white
        sparse data where the other starts end in poor local ones. Others: random orthonormal axes,
        random directions, rows chosen far apart, rows at random, the centres themselves (all of them,
        or one of each pair), or a function called as ``init(X, 2 * n_axes, random_state)``. Axes beyond
        the number of features are random directions.
    n_init : int, default=1
        Number of starts (one if the centres are given), of which the one with the largest objective is kept.
    max_iter : int, default=300
        Maximum number of iterations (passes over the data) of a start. The orthogonal start may take as many
        before.
    tol : float, default=1e-7
        A start ends when an iteration changes neither the objective nor (in squared length) the centres
        by more than this, relative to their size.
    batch_size : int or None, default=None
        Update the centres after every batch of this many rows, not once per pass.
    empty : {"data", "keep", "drop"}, default="data"
        What happens to a pair without rows. "data": it takes the direction of a row far from the other
        pairs, chosen as in k-means++. "keep": it stays as it is. "drop": it is dropped at the end, so
        that there are fewer axes than asked for.
    min_count : float, default=1
        With ``empty="drop"``: pairs that hold less weight than this at the end are dropped.
    compute_labels : bool, default=True
        Whether to assign all rows once more to the final centres. False saves that pass:
        ``labels_`` is not set, and ``counts_`` and ``objective_`` are those of the last iteration.
    random_state : int, RandomState, Generator or None, default=None
        Seed of all random draws, the same on every device.

    Attributes
    ----------
    cluster_centers_ : array of shape (2 * n_axes, n_features)
        Unit vectors; the second half are the negatives of the first.
    labels_ : integer array of shape (n_samples,)
        Cluster of every row, as a row of ``cluster_centers_``.
    counts_ : array of shape (2 * n_axes,)
        Number of rows, or total weight, of every cluster.
    objective_ : float
        Mean over rows of the largest inner product with a centre.
    objective_history_ : ndarray of shape (n_iter_ + 1,)
        Objective before every iteration, and at the end (not the latter if not compute_labels).
    n_iter_ : int
        Iterations of the start that was kept, without those of the orthogonal start.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X has column names.

    Notes
    -----
    Only n_axes inner products are computed for a row; the sign of the best one gives the
    cluster. A row of zeros has no direction: it moves no centre, and its label is 0.

    References
    ----------
    .. [1] A. Vinnikov and S. Shalev-Shwartz, "K-means recovers ICA filters when independent components
       are sparse", 2014.

    Examples
    --------
    >>> import numpy as np
    >>> from clusterica.cluster import CosineKMeans
    >>> X = np.random.default_rng(0).laplace(size=(20_000, 3))
    >>> C = CosineKMeans(random_state=0).fit(X).cluster_centers_
    >>> C.shape
    (6, 3)
    >>> np.abs(C).max(axis=1).min() > 0.999  # each lies on an axis
    np.True_
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **{k: v for k, v in BaseKMeans._parameter_constraints.items() if k != "n_clusters"},
        "n_axes": [Interval(Integral, 1, None, closed="left"), None],
        "orthogonal": ["boolean"],
    }
    _size_name = "n_axes"

    # Eleven parameters: the ten of KMeans, and whether the axes are orthogonal.
    def __init__(
        self,
        n_axes: int | None = None,
        *,
        orthogonal: bool = False,
        init: Any = "orthogonal",
        n_init: int = 1,
        max_iter: int = 300,
        tol: float = 1e-7,
        batch_size: int | None = None,
        empty: str = "data",
        min_count: float = 1,
        compute_labels: bool = True,
        random_state: Any = None,
    ) -> None:
        self.n_axes = n_axes
        self.orthogonal = orthogonal
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
        """Return the inner product of every row with every centre.

        Parameters
        ----------
        X : as in fit, (n_samples, n_features)
            The data.

        Returns
        -------
        responses : array of shape (n_samples, 2 * n_axes)
        """
        rows, C, _ = self._for_new_rows(X)
        return transform_rows(scores_of_both_signs, rows, C)

    @property
    def _rule(self) -> Axis:
        return Axis(orthogonal=self.orthogonal)

    def _count_centers(self, n_features: int) -> int:
        n_axes = n_features if self.n_axes is None else self.n_axes
        if self.orthogonal and n_axes > n_features:
            raise ValueError(
                f"n_axes={n_axes} can't be orthogonal in {n_features} dimensions; use at most "
                f"{n_features}, or orthogonal=False"
            )
        return n_axes
