"""Sources over time, stacked from top to bottom, and the columns of the mixing matrix as bars."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from clusterica.arrays import to_host
from clusterica.display._learned import learned_patterns
from clusterica.display._mpl import axes_or_new
from clusterica.metrics import excess_kurtosis

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOR = "#2f5d8c"


class SourcesDisplay:
    """Sources over time, one below the other, each with its excess kurtosis.

    Make one with :meth:`from_estimator` or :meth:`from_sources`.

    Parameters
    ----------
    S : array of shape (n_samples, n_sources)
        Sources, a sample in every row.
    kurtosis : array of shape (n_sources,), default=None
        Excess kurtosis of every source; by default that of S.
    names : list of str, default=None
        Names of the sources; by default "source 0" and so on.

    Attributes
    ----------
    lines_ : list of matplotlib Line2D
        One for every source.
    ax_ : matplotlib Axes
        Axes with the lines.
    figure_ : matplotlib Figure
        Figure that holds them.

    Examples
    --------
    >>> import numpy as np
    >>> from matplotlib.figure import Figure
    >>> from clusterica.display import SourcesDisplay
    >>> S = np.random.default_rng(0).laplace(size=(500, 3))
    >>> display = SourcesDisplay.from_sources(S, sampling_rate=100.0, ax=Figure().subplots())
    >>> display.ax_.get_xlabel(), len(display.lines_)
    ('time (s)', 3)
    """

    def __init__(
        self, S: ArrayLike, *, kurtosis: ArrayLike | None = None, names: list[str] | None = None
    ) -> None:
        self.S = S
        self.kurtosis = kurtosis
        self.names = names

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        sampling_rate: float | None = None,
        start: float = 0.0,
        stop: float | None = None,
        title: str | None = None,
        ax: Axes | None = None,
    ) -> SourcesDisplay:
        """Show the sources that a fitted estimator finds in X.

        Parameters
        ----------
        estimator : object
            Fitted, with ``transform``: ClusterICA, RICA, scikit-learn's FastICA, a pipeline. Its
            ``kurtosis_``, where it has one, is shown; else that of the sources.
        X : array of shape (n_samples, n_features)
            The signals, a sample in every row.
        sampling_rate, start, stop, title, ax
            As in :meth:`plot`.

        Returns
        -------
        SourcesDisplay
        """
        check_is_fitted(estimator)
        if not hasattr(estimator, "transform"):
            raise TypeError(
                f"{type(estimator).__name__} has no transform, which gives the sources; pass a fitted ICA"
            )
        kurtosis = getattr(estimator, "kurtosis_", None)
        display = cls(
            to_host(estimator.transform(X)),
            kurtosis=None if kurtosis is None else to_host(kurtosis),
        )
        return display.plot(sampling_rate=sampling_rate, start=start, stop=stop, title=title, ax=ax)

    @classmethod
    def from_sources(
        cls,
        S: Any,
        *,
        names: list[str] | None = None,
        sampling_rate: float | None = None,
        start: float = 0.0,
        stop: float | None = None,
        title: str | None = None,
        ax: Axes | None = None,
    ) -> SourcesDisplay:
        """Show given sources.

        Parameters
        ----------
        S : array of shape (n_samples, n_sources)
            A sample in every row.
        names : list of str, default=None
            Names of the sources.
        sampling_rate, start, stop, title, ax
            As in :meth:`plot`.

        Returns
        -------
        SourcesDisplay
        """
        display = cls(to_host(S), names=names)
        return display.plot(sampling_rate=sampling_rate, start=start, stop=stop, title=title, ax=ax)

    def plot(
        self,
        *,
        sampling_rate: float | None = None,
        start: float = 0.0,
        stop: float | None = None,
        title: str | None = None,
        ax: Axes | None = None,
    ) -> SourcesDisplay:
        """Draw the sources.

        All have the same scale. Of more than some thousand samples the smallest and the largest value of
        every short piece are drawn, so that no spike is lost.

        Parameters
        ----------
        sampling_rate : float, default=None
            Samples for a second; time is then in seconds.
        start, stop : float, default=0.0 and None
            The piece of time to show, in seconds or samples; None is the end.
        title : str, default=None
            Title of the axes.
        ax : matplotlib Axes, default=None
            Where to draw; a new figure by default.

        Returns
        -------
        SourcesDisplay
            Itself, with ``lines_``, ``ax_`` and ``figure_``.
        """
        S = np.asarray(self.S, dtype=np.float64)
        if S.ndim != 2 or S.size == 0:
            raise ValueError(
                f"S has shape {S.shape}; it must be (n_samples, n_sources), a sample in every row"
            )
        n, k = S.shape
        # More sources than samples, and many: most likely channels were passed as rows.
        if n <= k and k > 50:
            raise ValueError(
                f"S has {n} samples of {k} sources. Rows are samples; did you mean S.T?"
            )
        rate = 1.0 if sampling_rate is None else sampling_rate
        if not rate > 0:
            raise ValueError(f"sampling_rate={sampling_rate} must be above 0, in samples a second")
        names = self.names or [f"source {j}" for j in range(k)]
        if len(names) != k:
            raise ValueError(f"{len(names)} names are given for {k} sources; give one for each")
        kurtosis = excess_kurtosis(S) if self.kurtosis is None else np.asarray(self.kurtosis)
        first, last = round(start * rate), n if stop is None else min(n, round(stop * rate))
        if not 0 <= first < last:
            raise ValueError(
                f"start={start} and stop={stop} hold no sample; there are {n / rate:g} "
                f"{'samples' if sampling_rate is None else 'seconds'}"
            )
        piece = S[first:last]
        # A step of six standard deviations, or a quarter of the largest value for sources with rare spikes.
        spread = max(
            6 * float(np.median(piece.std(axis=0))), float(np.abs(piece).max()) / 4, 1e-300
        )
        height = max(2.0, 0.6 * k + 0.8)
        self.ax_ = axes_or_new(ax, what="SourcesDisplay", size=(8.0, min(height, 40.0)))
        self.figure_ = self.ax_.figure
        self.lines_ = []
        for j in range(k):
            t, values = _outline(piece[:, j])
            (line,) = self.ax_.plot(
                (first + t) / rate, values / spread - j, color=_COLOR, linewidth=0.7
            )
            self.lines_.append(line)
        labels = [f"{name}  κ = {g:.2g}" for name, g in zip(names, kurtosis, strict=True)]
        self.ax_.set_yticks(-np.arange(k), labels)
        self.ax_.tick_params(axis="y", length=0)
        self.ax_.set(ylim=(-k + 0.3, 0.7), xlim=(first / rate, last / rate))
        self.ax_.set_xlabel("sample" if sampling_rate is None else "time (s)")
        self.ax_.spines[["left", "right", "top"]].set_visible(False)
        if title is not None:
            self.ax_.set_title(title)
        return self


class MixingDisplay:
    """Columns of the mixing matrix: how much of every source each channel receives.

    Make one with :meth:`from_estimator`, or from the matrix.

    Parameters
    ----------
    mixing : array of shape (n_features, n_sources)
        A column for every source.
    feature_names : list of str, default=None
        Names of the channels; by default their numbers.

    Attributes
    ----------
    bars_ : list of matplotlib BarContainer
        One for every source.
    axes_ : ndarray of matplotlib Axes of shape (n_sources,)
        One for every source.
    figure_ : matplotlib Figure
        Figure that holds them.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from clusterica.display import MixingDisplay
    >>> len(MixingDisplay([[1.0, 0.2], [0.5, -1.0], [0.0, 0.3]]).plot(figure=Figure()).bars_)
    2
    """

    def __init__(self, mixing: ArrayLike, *, feature_names: list[str] | None = None) -> None:
        self.mixing = mixing
        self.feature_names = feature_names

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, feature_names: list[str] | None = None, figure: Any = None
    ) -> MixingDisplay:
        """Show the mixing matrix of a fitted ICA.

        Parameters
        ----------
        estimator : object
            Fitted, with ``mixing_``; of others the vectors that they learned are shown.
        feature_names : list of str, default=None
            Names of the channels; by default the names of the columns that the estimator was fitted to,
            or their numbers.
        figure : matplotlib Figure, default=None
            Where to draw; a new figure by default.

        Returns
        -------
        MixingDisplay
        """
        patterns = learned_patterns(estimator)
        if feature_names is None:
            feature_names = list(getattr(estimator, "feature_names_in_", [])) or None
        return cls(patterns.T, feature_names=feature_names).plot(figure=figure)

    def plot(self, *, figure: Any = None) -> MixingDisplay:
        """Draw a panel of bars for every source, all with the same channels from top to bottom.

        Parameters
        ----------
        figure : matplotlib Figure, default=None
            Where to draw; a new figure by default.

        Returns
        -------
        MixingDisplay
            Itself, with ``bars_``, ``axes_`` and ``figure_``.
        """
        A = np.asarray(self.mixing, dtype=np.float64)
        if A.ndim != 2 or A.size == 0:
            raise ValueError(
                f"mixing has shape {A.shape}; it must be (n_features, n_sources), a column for a source"
            )
        d, k = A.shape
        names = self.feature_names or [str(i) for i in range(d)]
        if len(names) != d:
            raise ValueError(f"{len(names)} feature_names are given for {d} features")
        # More than eight panels side by side would be too narrow to read.
        columns = min(k, 8)
        size = (1.2 + 1.1 * columns, (0.5 + min(8.0, max(1.2, 0.2 * d))) * -(-k // columns))
        if figure is None:
            # pyplot makes the figure, so that notebooks show it; its one pair of axes is not needed.
            figure = axes_or_new(None, what="MixingDisplay", size=size).figure
            figure.clear()
        self.figure_ = figure
        grid = figure.subplots(-(-k // columns), columns, sharey=True, squeeze=False).ravel()
        self.axes_, self.bars_ = grid[:k], []
        for ax in grid[k:]:
            ax.remove()
        # Names only where they can be read: one in so many that at most 40 are left.
        shown = np.arange(0, d, -(-d // 40))
        for j, ax in enumerate(self.axes_):
            column = A[:, j]
            self.bars_.append(ax.barh(np.arange(d), column, height=0.8, color=_COLOR))
            # A source that reaches no channel has no scale of its own.
            limit = float(np.abs(column).max()) or 1.0
            ax.set(xlim=(-1.05 * limit, 1.05 * limit), ylim=(d - 0.4, -0.6), xticks=[0])
            ax.set_xticklabels([])
            ax.axvline(0, color="0.55", linewidth=0.8)
            ax.set_title(f"source {j}", fontsize="small")
            ax.set_yticks(shown, [names[i] for i in shown], fontsize="small")
            ax.tick_params(length=0)
            ax.spines[["left", "right", "top", "bottom"]].set_visible(False)
        return self


def _outline(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return places and values to draw: of a long column the extremes of every short piece, in turn."""
    n = len(values)
    if n <= 4000:
        return np.arange(n), values
    # 2,000 pieces: more than a figure has pixels.
    edges = np.linspace(0, n, 2001).astype(int)[:-1]
    low, high = np.minimum.reduceat(values, edges), np.maximum.reduceat(values, edges)
    return np.repeat(edges, 2), np.column_stack([low, high]).ravel()
