"""ClusterICA as a function of signals in rows: ``S = W K (X - mean)``, called and unpacked as picard is."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from clusterica.arrays import Array, config_context, to_host, to_like
from clusterica.ica._cluster_ica import ClusterICA


class Separation(NamedTuple):
    """What :func:`cluster_ica` returns; it unpacks as ``K, W, S``."""

    K: Array | None
    """Whitening matrix, shape (n_components, n_features); None if ``whiten=False``."""
    W: Array
    """Unmixing matrix of the white signals, shape (n_components, n_components)."""
    S: Array
    """Sources, shape (n_components, n_samples)."""


def cluster_ica(
    X: Any,
    *,
    n_components: int | None = None,
    whiten: bool = True,
    max_iter: int = 500,
    random_state: Any = None,
) -> Separation:
    """Separate signals in the rows of X: :class:`~clusterica.ica.ClusterICA`, called as ``picard`` is.

    For those who come from ``picard`` or from MNE, where a row is a signal and a column a sample. The
    estimator has it the other way round: ``ClusterICA().fit(X.T)``.

    Parameters
    ----------
    X : array or tensor of shape (n_features, n_samples)
        The signals.
    n_components : int or None, default=None
        Number of sources; None is n_features. Fewer are looked for after reduction to that many principal
        components.
    whiten : bool, default=True
        Whether to whiten X first. False is for signals that are white already: K is None.
    max_iter : int, default=500
        Maximum number of iterations.
    random_state : int, RandomState, Generator or None, default=None
        Seed of all random draws.

    Returns
    -------
    Separation
        ``K, W, S``, where ``S = W @ K @ (X - mean)`` has unit variance, the mean being that of every signal;
        ``S = W @ (X - mean)`` if ``whiten=False``. Variances are divided by n - 1, those of picard by n.
        Sparsest source first.

    Examples
    --------
    >>> import numpy as np
    >>> from clusterica.ica import cluster_ica
    >>> S = np.random.default_rng(0).laplace(size=(2, 5000))
    >>> X = np.array([[1.0, 0.5], [0.2, 1.0]]) @ S
    >>> K, W, found = cluster_ica(X, random_state=0)
    >>> np.allclose(found, W @ K @ (X - X.mean(axis=1, keepdims=True)))
    True
    """
    if getattr(X, "ndim", None) != 2:
        X = np.asarray(X)
        if X.ndim != 2:
            raise ValueError(
                f"X has shape {X.shape}; it must be (n_features, n_samples), a signal in every row"
            )
    if not whiten and n_components not in (None, X.shape[0]):
        raise ValueError(
            f"n_components={n_components} of {X.shape[0]} signals needs whiten=True, which reduces them"
        )
    ica = ClusterICA(n_components, max_iter=max_iter, random_state=random_state).fit(X.T)
    with config_context(lazy=False):  # a function of arrays gives arrays
        S = ica.transform(X.T).T
    if not whiten:  # the whitener of ClusterICA has found what is left to whiten, and W includes it
        return Separation(None, ica.components_, S)
    # components_ = W K, and K times its pseudo-inverse is the identity.
    W = to_host(ica.components_) @ to_host(ica.whitener_.dewhitening_)
    return Separation(ica.whitening_, to_like(W, ica.components_), S)
