"""Histograms of responses s_j = d_j · x, each in units of its standard deviation, beside a Gaussian."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from clusterica.arrays import to_host
from clusterica.display._mpl import axes_or_new
from clusterica.metrics import excess_kurtosis

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Ten standard deviations hold all but the farthest rows of sparse responses, which go to the last bins.
_REACH = 10.0


class ResponsesDisplay:
    """Histograms of responses on a logarithmic scale, with the Gaussian of the same variance.

    Good filters respond to few rows and strongly: their histogram has a high peak and heavy tails, well above
    the Gaussian on both sides. The excess kurtosis measures that; it is 0 for a Gaussian.

    Make one with :meth:`from_estimator`, or from responses.

    Parameters
    ----------
    responses : array of shape (n_samples, n_components)
        One column for every filter or source.

    Attributes
    ----------
    lines_ : list of matplotlib Line2D
        One for each of the components shown, and the Gaussian.
    kurtosis_ : ndarray of shape (n_components,)
        Excess kurtosis of the responses; NaN for constant ones.
    ax_ : matplotlib Axes
        Axes with the histograms.
    figure_ : matplotlib Figure
        Figure that holds them.

    Examples
    --------
    >>> import numpy as np
    >>> from matplotlib.figure import Figure
    >>> from clusterica.display import ResponsesDisplay
    >>> S = np.random.default_rng(0).laplace(size=(10_000, 8))
    >>> display = ResponsesDisplay(S).plot(ax=Figure().subplots())
    >>> bool(np.abs(display.kurtosis_ - 3).max() < 1)  # that of a Laplace distribution is 3
    True
    """

    def __init__(self, responses: ArrayLike) -> None:
        self.responses = responses

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        n_shown: int = 20,
        title: str | None = None,
        ax: Axes | None = None,
    ) -> ResponsesDisplay:
        """Show the responses of a fitted estimator to rows.

        Parameters
        ----------
        estimator : object
            Fitted, with ``transform``: an ICA, RICA, GainShapeKMeans, a pipeline.
        X : array-like of shape (n_samples, n_features)
            The rows; some thousand are enough.
        n_shown : int, default=20
            Maximum number of components to draw, evenly spaced over all.
        title : str, default=None
            Title of the axes, by default the median excess kurtosis.
        ax : matplotlib Axes, default=None
            Where to draw; a new figure by default.

        Returns
        -------
        ResponsesDisplay
        """
        check_is_fitted(estimator)
        if not hasattr(estimator, "transform"):
            raise TypeError(
                f"{type(estimator).__name__} has no transform, so that there are no responses to show; pass "
                "an estimator that has one, or the responses themselves."
            )
        responses = np.asarray(to_host(estimator.transform(X)))
        return cls(responses).plot(n_shown=n_shown, title=title, ax=ax)

    def plot(
        self, *, n_shown: int = 20, title: str | None = None, ax: Axes | None = None
    ) -> ResponsesDisplay:
        """Draw the histograms.

        Parameters
        ----------
        n_shown : int, default=20
            Maximum number of components to draw, evenly spaced over all.
        title : str, default=None
            Title of the axes, by default the median excess kurtosis.
        ax : matplotlib Axes, default=None
            Where to draw; a new figure by default.

        Returns
        -------
        ResponsesDisplay
            Itself, with ``lines_``, ``kurtosis_``, ``ax_`` and ``figure_``.
        """
        S = np.asarray(self.responses, dtype=np.float64)
        if S.ndim != 2 or S.shape[0] < 2 or S.shape[1] == 0:
            raise ValueError(
                f"responses have shape {S.shape}; they must be (n_samples, n_components), with two "
                "rows or more."
            )
        if n_shown < 1:
            raise ValueError(f"n_shown is {n_shown!r}; it must be at least 1.")
        S = S - S.mean(axis=0)
        deviations = S.std(axis=0)
        varied = deviations > 0
        S = np.divide(S, deviations, out=np.zeros_like(S), where=varied)
        self.kurtosis_ = excess_kurtosis(S)
        self.ax_ = axes_or_new(ax, what="ResponsesDisplay")
        self.figure_ = self.ax_.figure
        # Bins of a quarter of a standard deviation.
        edges = np.linspace(-_REACH, _REACH, 81)
        middles = (edges[1:] + edges[:-1]) / 2
        shown = np.flatnonzero(varied)
        # Evenly spaced over all: the first components may be the sparsest ones.
        picks = np.linspace(0, len(shown) - 1, min(n_shown, len(shown))).round().astype(int)
        self.lines_ = []
        for j in shown[picks]:
            counts, _ = np.histogram(np.clip(S[:, j], -_REACH, _REACH), edges)
            density = counts / (len(S) * np.diff(edges))
            # A bin without rows has no logarithm, and breaks the line.
            density[counts == 0] = np.nan
            self.lines_ += self.ax_.plot(middles, density, color="#2f5d8c", alpha=0.45, lw=1)
        gaussian = np.exp(-(middles**2) / 2) / np.sqrt(2 * np.pi)
        self.lines_ += self.ax_.plot(middles, gaussian, color="0.4", ls="--", label="Gaussian")
        self.ax_.set_yscale("log")
        self.ax_.set(xlim=(-_REACH, _REACH), ylim=(0.3 / len(S), 3))
        self.ax_.set(xlabel="response (standard deviations)", ylabel="density")
        self.ax_.legend(frameon=False)
        if title is None:
            median = np.median(self.kurtosis_[varied]) if varied.any() else np.nan
            title = f"excess kurtosis {median:.2g} (median of {S.shape[1]})"
        self.ax_.set_title(title)
        return self
