"""Eigenvalues λ of the data and what whitening leaves, λ / (λ + eps); the objective after every step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from clusterica.arrays import to_host
from clusterica.display._learned import of_region, refuse_pipeline
from clusterica.display._mpl import axes_or_new

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class SpectrumDisplay:
    """Eigenvalues of the data before and after whitening, largest first.

    ``eps`` should cut off the tail of the eigenvalues, which is mostly noise, and leave the others: above it
    whitening evens out the variance, below it the variance stays small.

    Make one with :meth:`from_estimator`, or from the eigenvalues.

    Parameters
    ----------
    eigenvalues : array of shape (n_features,)
        Eigenvalues of the covariance.
    eps : float, default=0.0
        The constant that whitening adds to them.

    Attributes
    ----------
    lines_ : list of matplotlib Line2D
        The eigenvalues before and after whitening.
    ax_ : matplotlib Axes
        Axes with the lines.
    figure_ : matplotlib Figure
        Figure that holds them.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from clusterica.display import SpectrumDisplay
    >>> display = SpectrumDisplay([9.0, 1.0], eps=1.0).plot(ax=Figure().subplots())
    >>> display.lines_[1].get_ydata()
    array([0.9, 0.5])
    """

    def __init__(self, eigenvalues: ArrayLike, *, eps: float = 0.0) -> None:
        self.eigenvalues = eigenvalues
        self.eps = eps

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, region: int = 0, title: str | None = None, ax: Axes | None = None
    ) -> SpectrumDisplay:
        """Show the spectrum of a fitted whitener.

        Parameters
        ----------
        estimator : object
            A fitted :class:`~clusterica.preprocessing.Whitener` or
            :class:`~clusterica.preprocessing.KernelWhitener`, or an estimator that has one in ``whitener_``,
            such as image features or an ICA.
        region : int, default=0
            Index of the region, if image features have several.
        title : str, default=None
            Title of the axes.
        ax : matplotlib Axes, default=None
            Where to draw; a new figure by default.

        Returns
        -------
        SpectrumDisplay
        """
        check_is_fitted(estimator)
        refuse_pipeline(estimator)
        whitener = of_region(getattr(estimator, "whitener_", estimator), region)
        if not hasattr(whitener, "eigenvalues_"):
            raise TypeError(
                f"{type(estimator).__name__} has no eigenvalues_ to show; pass a fitted Whitener, or an "
                "estimator that has one in whitener_."
            )
        eigenvalues = np.asarray(to_host(whitener.eigenvalues_))
        # A KernelWhitener adds no constant.
        eps = float(getattr(whitener, "eps_", 0.0))
        return cls(eigenvalues, eps=eps).plot(ax=ax, title=title)

    def plot(self, *, ax: Axes | None = None, title: str | None = None) -> SpectrumDisplay:
        """Draw the eigenvalues.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; a new figure by default.
        title : str, default=None
            Title of the axes.

        Returns
        -------
        SpectrumDisplay
            Itself, with ``lines_``, ``ax_`` and ``figure_``.
        """
        before = np.sort(np.asarray(self.eigenvalues, dtype=np.float64))[::-1]
        if before.ndim != 1 or before.size == 0 or not before[0] > 0:
            raise ValueError(
                f"eigenvalues have shape {before.shape}; they must be a list of numbers, the largest above 0."
            )
        before = np.clip(before, 0, None)  # rounding makes some slightly negative
        after = np.divide(before, before + self.eps, out=np.zeros_like(before), where=before > 0)
        ranks = np.arange(1, len(before) + 1)
        self.ax_ = axes_or_new(ax, what="SpectrumDisplay")
        self.figure_ = self.ax_.figure
        self.lines_ = [
            *self.ax_.plot(ranks, before, color="#2f5d8c", label="before whitening"),
            *self.ax_.plot(ranks, after, color="#c8553d", label="after"),
        ]
        if self.eps > 0:
            self.ax_.axhline(
                self.eps, color="0.5", lw=0.9, ls=(0, (4, 3)), label=f"eps = {self.eps:.3g}"
            )
        self.ax_.set_yscale("log")
        self.ax_.set(xlabel="directions, largest variance first", ylabel="variance")
        # Eigenvalues that are the rounding of float32 would stretch the axis to nothing.
        shown = before[before > 1e-8 * before[0]]
        self.ax_.set_ylim(0.5 * min(shown[-1], after[len(shown) - 1]), 2 * max(before[0], 1))
        self.ax_.legend(frameon=False)
        if title is not None:
            self.ax_.set_title(title)
        return self


class ConvergenceDisplay:
    """The objective of an iterative estimator at the start and after every step, and its terms.

    Make one with :meth:`from_estimator`, or from the values.

    Parameters
    ----------
    history : array of shape (n_iter + 1,)
        The objective at the start and after every step.
    terms : dict of str to array of shape (n_iter + 1,), default=None
        Parts that add up to it.

    Attributes
    ----------
    lines_ : list of matplotlib Line2D
        The objective, and one line for every term.
    ax_ : matplotlib Axes
        Axes with the lines.
    figure_ : matplotlib Figure
        Figure that holds them.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from sklearn.datasets import load_iris
    >>> from clusterica.cluster import KMeans
    >>> from clusterica.display import ConvergenceDisplay
    >>> kmeans = KMeans(3, random_state=0).fit(load_iris().data)
    >>> display = ConvergenceDisplay.from_estimator(kmeans, ax=Figure().subplots())
    >>> len(display.lines_[0].get_xdata()) == len(kmeans.objective_history_)
    True
    """

    def __init__(self, history: ArrayLike, *, terms: dict[str, ArrayLike] | None = None) -> None:
        self.history = history
        self.terms = terms

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, title: str | None = None, ax: Axes | None = None
    ) -> ConvergenceDisplay:
        """Show how the objective of a fitted estimator changed.

        Parameters
        ----------
        estimator : object
            Fitted, with ``objective_history_``, and maybe ``term_histories_``; or image features whose
            learner has them.
        title : str, default=None
            Title of the axes.
        ax : matplotlib Axes, default=None
            Where to draw; a new figure by default.

        Returns
        -------
        ConvergenceDisplay
        """
        check_is_fitted(estimator)
        refuse_pipeline(estimator)
        # Image features keep the learner; of several regions, that of the first is shown.
        learner = of_region(getattr(estimator, "learner_", estimator), 0)
        if not hasattr(learner, "objective_history_"):
            raise TypeError(
                f"{type(estimator).__name__} has no objective_history_ to show; pass a fitted estimator "
                "that iterates."
            )
        terms = getattr(learner, "term_histories_", None)
        return cls(learner.objective_history_, terms=terms).plot(ax=ax, title=title)

    def plot(self, *, ax: Axes | None = None, title: str | None = None) -> ConvergenceDisplay:
        """Draw the curves.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; a new figure by default.
        title : str, default=None
            Title of the axes.

        Returns
        -------
        ConvergenceDisplay
            Itself, with ``lines_``, ``ax_`` and ``figure_``.
        """
        history = np.asarray(self.history, dtype=np.float64)
        if history.ndim != 1 or history.size == 0:
            raise ValueError(
                f"history has shape {history.shape}; it must hold the objective after every step."
            )
        self.ax_ = axes_or_new(ax, what="ConvergenceDisplay")
        self.figure_ = self.ax_.figure
        steps = np.arange(len(history))
        self.lines_ = self.ax_.plot(steps, history, color="#2f5d8c", lw=1.8, label="objective")
        for name, values in (self.terms or {}).items():
            self.lines_ += self.ax_.plot(steps, np.asarray(values), lw=1.1, ls="--", label=name)
        if self.terms:
            self.ax_.legend(frameon=False)
        self.ax_.set(xlabel="step", ylabel="objective")
        self.ax_.locator_params(axis="x", integer=True)
        if title is not None:
            self.ax_.set_title(title)
        return self
