"""An ``mne.preprocessing.ICA`` with the sources of an estimator: ``W = (U S) V`` with orthonormal rows V."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from clusterica.arrays import to_host


def to_mne(estimator: Any, info: Any, *, scale: float = 1.0) -> Any:
    """Return a fitted estimator as an ICA of MNE-Python, which plots, saves and finds artefacts.

    Its sources are those of the estimator, in the same order. ``apply`` takes the excluded ones out of a
    recording, ``mixing_[:, j] * source_j`` each, and leaves everything else as it is, parts of the data
    without a source included.

    Parameters
    ----------
    estimator : ClusterICA, RICA, scikit-learn's FastICA, ...
        Fitted to samples as rows and channels as columns, ``raw.get_data(...).T``. It has ``components_``
        and perhaps ``mean_``, and at most as many components as channels.
    info : mne.Info
        The channels that the estimator was fitted to, in the same order: ``raw.info``, or
        ``mne.pick_info(raw.info, picks)``.
    scale : float, default=1.0
        What the recording was multiplied by before the fit, such as 1e6 for microvolts.

    Returns
    -------
    mne.preprocessing.ICA

    Examples
    --------
    >>> import mne, numpy as np  # doctest: +SKIP
    >>> from clusterica.ica import ClusterICA, to_mne
    >>> raw = mne.io.read_raw_fif("recording.fif", preload=True).pick("eeg")  # doctest: +SKIP
    >>> ica = ClusterICA(20, random_state=0).fit(raw.get_data().T)  # doctest: +SKIP
    >>> ica = to_mne(ica, raw.info)  # doctest: +SKIP
    >>> ica.plot_components()  # doctest: +SKIP
    >>> ica.exclude = [0]  # doctest: +SKIP
    >>> clean = ica.apply(raw.copy())  # doctest: +SKIP
    """
    check_is_fitted(estimator, "components_")
    W = np.asarray(to_host(estimator.components_), dtype=np.float64)
    _check_channels(estimator, W, info)
    try:
        import mne
    except ImportError as error:
        raise ImportError(
            "to_mne needs MNE-Python; install it with: pip install 'clusterica[mne]'"
        ) from error
    K, d = W.shape
    U, s, V = np.linalg.svd(W)
    if s[K - 1] <= s[0] * d * np.finfo(np.float64).eps:
        raise ValueError(
            f"the {K} rows of components_ depend on each other, so that sources can't be taken out one by "
            "one; ask for fewer components"
        )
    mean = getattr(estimator, "mean_", None)
    # Sources have about unit variance: a large entry of s belongs to a direction of small variance. MNE has
    # the largest variance first, and after the K directions those that no source reaches.
    order = np.argsort(s)
    ica = mne.preprocessing.ICA()
    ica.info = info.copy()
    ica.ch_names = list(info["ch_names"])
    ica.current_fit, ica.reject_ = "raw", None
    ica.method, ica.fit_params = f"clusterica.to_mne({type(estimator).__name__})", {}
    ica.n_components_ = K
    ica.pre_whitener_ = np.full((d, 1), 1 / scale)  # MNE divides the recording by it
    ica.pca_mean_ = np.zeros(d) if mean is None else np.asarray(to_host(mean), dtype=np.float64)
    ica.pca_components_ = np.concatenate([V[:K][order], V[K:]])
    ica.pca_explained_variance_ = np.concatenate([1 / s[order] ** 2, np.zeros(d - K)])
    ica.unmixing_matrix_ = (U * s)[:, order]
    # Private, as in MNE's own readers of other programs' files: there is no public way to fill an ICA.
    ica._update_mixing_matrix()
    ica._update_ica_names()
    n_iter = getattr(estimator, "n_iter_", None)
    ica.n_iter_ = None if n_iter is None else int(n_iter)
    ica.n_samples_ = getattr(getattr(estimator, "whitener_", None), "n_samples_seen_", None)
    return ica


def _check_channels(estimator: Any, W: np.ndarray, info: Any) -> None:
    """Refuse an estimator whose features are not the channels, or that has more sources than those."""
    K, d = W.shape
    names = list(info["ch_names"])
    if len(names) != d:
        raise ValueError(
            f"info has {len(names)} channels, and the estimator was fitted to {d} features; pass the info of "
            "these channels, mne.pick_info(raw.info, picks)"
        )
    fitted = list(getattr(estimator, "feature_names_in_", names))
    if fitted != names:
        raise ValueError(
            f"the estimator was fitted to the columns {fitted[:5]}... and info has the channels "
            f"{names[:5]}...; pass them in the same order"
        )
    if d < K:
        raise ValueError(
            f"MNE's ICA has at most as many components as channels, {d}, and the estimator has {K}; fit one "
            f"with n_components={d} or less"
        )
