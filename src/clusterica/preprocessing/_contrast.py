"""Brightness and contrast of image patches: ``x <- (x - mean(x)) / sqrt(var(x) + eps)``, row by row."""

from __future__ import annotations

from functools import partial
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from clusterica.arrays import (
    Array,
    Estimator,
    FloatOutputMixin,
    Interval,
    check_rows,
    fetched,
    fit_context,
    map_reduce,
    map_rows,
    transform_rows,
    warn_user,
)
from clusterica.ops.patch import extremes, normalize_contrast, sum_of_variances
from clusterica.preprocessing.whitening import percentage


class ContrastNormalizer(FloatOutputMixin, OneToOneFeatureMixin, TransformerMixin, Estimator):
    r"""Give every row zero mean and about unit variance.

    Each row becomes :math:`(x - \mathrm{mean}(x)) / \sqrt{\mathrm{var}(x) + \epsilon}`, section 2.1 of
    [1]_. The constant keeps the noise of flat patches from being amplified.

    Parameters
    ----------
    eps : float, "auto" or str, default=10.0
        Added to the variance of a row. The value of 10 refers to pixels in 0..255. "auto" scales it to
        the range of the data, ``10 (range / 255)^2``: for values in [0, 1] that is ``10 / 255^2``. The
        range is the first of 1, 255 and 65535 that holds all values if none is negative, otherwise
        the largest minus the smallest value. A percentage such as ``"1%"`` is that share of the mean
        variance of a row, for values that are not pixels.

    Attributes
    ----------
    eps_ : float
        The constant in use.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X has column names.

    References
    ----------
    .. [1] A. Coates and A. Y. Ng, "Learning feature representations with K-means", 2012.

    Examples
    --------
    >>> import numpy as np
    >>> from clusterica.preprocessing import ContrastNormalizer
    >>> ContrastNormalizer(eps=0.0).fit_transform(np.array([[1.0, 3.0], [5.0, 5.0]]))
    array([[-1.,  1.],
           [ 0.,  0.]])
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "eps": [Interval(Real, 0, None, closed="left"), str],
    }

    def __init__(self, eps: Any = 10.0) -> None:
        self.eps = eps

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> Self:
        """Set the constant; warn if it is much larger than the variance of the rows.

        Parameters
        ----------
        X : array-like, tensor, Dask array or iterable of blocks, (n_samples, n_features)
            The data.
        y : ignored

        Returns
        -------
        self
        """
        rows = check_rows(self, X, reset=True)
        if self.eps == "auto":
            ends = fetched(map_rows(extremes, rows))
            low, high = float(ends[:, 0].min()), float(ends[:, 1].max())
            # Unit range, or pixels of 8 or 16 bits: a dark image has the range of its format, not its own.
            pixels = next((r for r in (1.0, 255.0, 65535.0) if high <= r), high)
            extent = high - low if low < 0 else pixels
            # Coates & Ng use 10 for pixels in 0..255; a variance scales with the square of the range.
            self.eps_ = 10.0 * (extent / 255.0) ** 2
        elif isinstance(self.eps, str):
            # The mean over all rows takes a pass, as "auto" does; a number takes none.
            total, n = map_reduce(sum_of_variances, rows)
            self.eps_ = percentage(self.eps) * float(total) / float(n)
            # A share of the variance fits any range of values; rows far below it are meant to stay flat.
            return self
        else:
            self.eps_ = self.eps
        # A spread far below 1 means that eps dominates the variance of the rows; some rows show it.
        normalized = normalize_contrast(rows.glance().astype(np.float64), eps=self.eps_)
        spread = float(np.median(normalized.std(axis=1)))
        if self.eps_ > 0 and 0 < spread < 0.2:
            remedy = "give a smaller eps as a number"
            if self.eps != "auto":
                remedy = "it refers to pixels in 0..255, use eps='auto' or 10/255**2 for values in [0, 1]"
            warn_user(
                f"rows have a typical spread of {spread:.2g} after normalisation, far under 1: "
                f"eps={self.eps_:g} is large compared with their variance; {remedy}"
            )
        return self

    def transform(self, X: Any) -> Array:
        """Normalise every row.

        Parameters
        ----------
        X : as in fit, (n_samples, n_features)
            The data.

        Returns
        -------
        X_normalized : array of shape (n_samples, n_features)
            In the library and on the device of X.
        """
        check_is_fitted(self, "eps_")
        rows = check_rows(self, X, reset=False)
        return transform_rows(partial(normalize_contrast, eps=self.eps_), rows)
