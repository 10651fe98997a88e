"""Groups of filters as rows of tiles: the seed of a group first, then the filters that depend most on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from clusterica.display._mpl import draw_rows_of_tiles
from clusterica.display._tiles import image_shape, tile_images

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class GroupsDisplay:
    """Filters in groups, a row of tiles for each group.

    Make one with :meth:`from_estimator`, or from groups.

    Parameters
    ----------
    groups : sequence of arrays of int
        Indices of the filters of each group.
    filters : array of shape (n_filters, n_features)
        One filter per row.
    shape : tuple (height, width) or (height, width, 3), default=None
        Shape of a filter as a picture, by default a square.

    Attributes
    ----------
    image_ : matplotlib AxesImage
        The picture.
    ax_ : matplotlib Axes
        Axes with the picture.
    figure_ : matplotlib Figure
        Figure that holds them.

    Examples
    --------
    >>> import numpy as np
    >>> from matplotlib.figure import Figure
    >>> from clusterica.display import GroupsDisplay
    >>> filters = np.random.default_rng(0).normal(size=(6, 16))
    >>> display = GroupsDisplay([[0, 3], [1, 2, 5]], filters).plot(ax=Figure().subplots())
    >>> [label.get_text() for label in display.ax_.get_yticklabels()]
    ['group 0', 'group 1']
    """

    def __init__(
        self,
        groups: Sequence[ArrayLike],
        filters: ArrayLike,
        *,
        shape: tuple[int, ...] | None = None,
    ) -> None:
        self.groups = groups
        self.filters = filters
        self.shape = shape

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        filters: ArrayLike,
        *,
        shape: tuple[int, ...] | None = None,
        n_groups: int = 10,
        n_columns: int = 12,
        title: str | None = None,
        ax: Axes | None = None,
    ) -> GroupsDisplay:
        """Show the groups that a fitted estimator found among filters.

        Parameters
        ----------
        estimator : object
            Fitted, with ``groups_``: :class:`~clusterica.networks.DependencyGroups` of the responses to the
            filters, or a :class:`~clusterica.networks.Layer`.
        filters : array of shape (n_filters, n_features)
            The filters whose responses are the inputs of the estimator.
        shape : tuple (height, width) or (height, width, 3), default=None
            Shape of a filter as a picture, by default a square.
        n_groups : int, default=10
            Maximum number of groups to show.
        n_columns : int, default=12
            Maximum number of filters of a group to show.
        title : str, default=None
            Title of the axes.
        ax : matplotlib Axes, default=None
            Where to draw; a new figure by default.

        Returns
        -------
        GroupsDisplay
        """
        check_is_fitted(estimator)
        if not hasattr(estimator, "groups_"):
            raise TypeError(
                f"{type(estimator).__name__} has no groups_ to show; pass fitted DependencyGroups or a Layer."
            )
        display = cls(estimator.groups_, filters, shape=shape)
        return display.plot(n_groups=n_groups, n_columns=n_columns, title=title, ax=ax)

    def plot(
        self,
        *,
        n_groups: int = 10,
        n_columns: int = 12,
        title: str | None = None,
        ax: Axes | None = None,
    ) -> GroupsDisplay:
        """Draw the tiles.

        Parameters
        ----------
        n_groups : int, default=10
            Maximum number of groups to show.
        n_columns : int, default=12
            Maximum number of filters of a group to show.
        title : str, default=None
            Title of the axes.
        ax : matplotlib Axes, default=None
            Where to draw; a new figure by default.

        Returns
        -------
        GroupsDisplay
            Itself, with ``image_``, ``ax_`` and ``figure_``.
        """
        filters = np.asarray(self.filters, dtype=np.float64)
        groups = [np.asarray(group, dtype=np.int64) for group in self.groups[:n_groups]]
        largest = max((int(group.max()) for group in groups if len(group)), default=-1)
        if largest < 0 or largest >= len(filters):
            raise ValueError(
                f"groups have indices up to {largest}, and there are {len(filters)} filters; give the "
                "filters whose responses were grouped, and at least one group."
            )
        shape = image_shape(filters.shape[1], shape=self.shape)
        across = min(n_columns, max(map(len, groups)))
        # Groups may be of different sizes: a place without a filter is grey.
        tiles = np.zeros((len(groups), across, filters.shape[1]))
        for row, group in zip(tiles, groups, strict=True):
            row[: len(group)] = filters[group[:across]]
        pad = 1
        picture = tile_images(
            tiles.reshape(-1, filters.shape[1]), shape=shape, n_columns=across, pad=pad
        )
        self.image_ = draw_rows_of_tiles(
            picture,
            [f"group {i}" for i in range(len(groups))],
            ax=ax,
            what="GroupsDisplay",
            title=title,
            tile_height=shape[0],
            pad=pad,
        )
        self.ax_ = self.image_.axes
        self.figure_ = self.ax_.figure
        return self
