"""What an op asks of a contrast: ``y -> (G(y), G'(y), G''(y))``, element by element.

The contrasts themselves are in ``clusterica.contrasts``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from clusterica.arrays import Array


class Derivatives(NamedTuple):
    """A function and its first two derivatives at every element, each of the shape of y."""

    value: Array
    first: Array
    second: Array


Contrast = Callable[[Array], Derivatives]


def first_two(contrast: Contrast, y: Array) -> tuple[Array, Array]:
    """Return G and G' of a contrast, without G'' where it knows how to leave that out."""
    # Optional, so that a custom contrast needs one method only.
    own = getattr(contrast, "first_two", None)
    return own(y) if own is not None else tuple(contrast(y))[:2]
