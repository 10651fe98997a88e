"""One image of many filters: a row w becomes a tile, 1/2 + w / (2 max |w|), with zero as grey."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

SCALES = ("each", "all")


def tile_images(
    filters: ArrayLike,
    *,
    shape: tuple[int, ...] | None = None,
    n_columns: int | None = None,
    pad: int = 1,
    scale: str = "each",
    background: float = 1.0,
) -> np.ndarray:
    """Arrange filters in a grid, row by row.

    Parameters
    ----------
    filters : array of shape (n_filters, n_features)
        One filter per row.
    shape : tuple (height, width) or (height, width, 3), default=None
        Shape of a filter as a picture. By default a square, grey if ``n_features`` is a square
        number and in color if it is three times one.
    n_columns : int, default=None
        Number of tiles side by side; by default the grid is about square.
    pad : int, default=1
        Pixels between tiles and around them.
    scale : {"each", "all"}, default="each"
        What brings the values into the range of a picture: the largest absolute value of each
        filter, or that of all of them, which keeps weak filters faint.
    background : float, default=1.0
        Value between the tiles, from 0 (black) to 1 (white).

    Returns
    -------
    ndarray of shape (height, width) or (height, width, 3)
        Values from 0 to 1; 0.5 is where a filter is zero.

    Examples
    --------
    >>> from clusterica.display import tile_images
    >>> tile_images([[1, -1, 0, 0]], pad=0)
    array([[1. , 0. ],
           [0.5, 0.5]])
    """
    rows = np.asarray(filters, dtype=np.float64)
    if rows.ndim != 2 or rows.size == 0:
        raise ValueError(
            f"filters has shape {rows.shape}; it must be (n_filters, n_features), neither zero."
        )
    if not np.isfinite(rows).all():
        raise ValueError("filters has NaN or infinite values, which cannot be drawn; remove them.")
    if scale not in SCALES:
        raise ValueError(f"scale is {scale!r}; it must be one of {', '.join(SCALES)}.")
    if pad < 0:
        raise ValueError(f"pad is {pad!r}; it must be zero or more pixels.")
    if n_columns is not None and n_columns < 1:
        raise ValueError(f"n_columns is {n_columns!r}; it must be at least 1, or None.")
    shape = image_shape(rows.shape[1], shape=shape)
    # The last line of tiles may be short.
    across = math.ceil(math.sqrt(len(rows))) if n_columns is None else n_columns
    size = np.abs(rows)
    # By the largest absolute value, so that zero is the same grey in every tile.
    peak = size.max(axis=1, keepdims=True) if scale == "each" else size.max(keepdims=True)
    # Where the peak is zero the filter is zero, and grey.
    values = 0.5 + 0.5 * np.divide(rows, peak, out=np.zeros_like(rows), where=peak > 0)
    return lay_out(values, shape=shape, n_columns=across, pad=pad, background=background)


def lay_out(
    values: np.ndarray, *, shape: tuple[int, ...], n_columns: int, pad: int, background: float = 1.0
) -> np.ndarray:
    """Return one image of rows of values from 0 to 1; each row becomes a tile of this shape."""
    # Grey tiles have one channel here, which is dropped at the end.
    tiles = values.reshape(len(values), shape[0], shape[1], -1)
    down, across = math.ceil(len(tiles) / n_columns), n_columns
    height, width, channels = tiles.shape[1:]
    # A line of background between tiles, and around all of them.
    step_y, step_x = height + pad, width + pad
    picture = np.full((down * step_y + pad, across * step_x + pad, channels), background)
    for index, tile in enumerate(tiles):
        top, left = pad + (index // across) * step_y, pad + (index % across) * step_x
        picture[top : top + height, left : left + width] = tile
    return picture if len(shape) == 3 else picture[:, :, 0]


def image_shape(n_features: int, *, shape: tuple[int, ...] | None = None) -> tuple[int, ...]:
    """Check the shape of a filter as a picture, or find it when it is a square."""
    if shape is not None:
        if (
            len(shape) not in (2, 3)
            or math.prod(shape) != n_features
            or shape[2:] not in ((), (3,))
        ):
            raise ValueError(
                f"shape is {shape!r}; it must be (height, width) or (height, width, 3) and hold "
                f"the n_features={n_features} values of a filter."
            )
        return tuple(shape)
    side = math.isqrt(n_features)
    if side * side == n_features:
        return (side, side)
    # Three channels, the last axis of a pixel.
    side = math.isqrt(n_features // 3)
    if 3 * side * side == n_features:
        return (side, side, 3)
    raise ValueError(
        f"filters have n_features={n_features}, neither a square number nor three times one; "
        "give their shape with shape=(height, width) or shape=(height, width, 3)."
    )
