"""The penalty g of codes, by name: ``sum_j G(s_j)``, or over pools ``sum_j √(ε + H_j s²)``."""

from __future__ import annotations

from math import isqrt
from typing import Any

import numpy as np

from clusterica.contrasts._contrasts import Exponential, LogCosh, SmoothedL1, check_contrast
from clusterica.contrasts._poolings import GroupPooling, TorusPooling
from clusterica.ops.contrast import Contrast
from clusterica.ops.penalty import CodePooling, Elementwise, PenaltyFunction, Pooled

# By the names of the parameter `penalty`.
PENALTIES: dict[str, Contrast] = {
    "logcosh": LogCosh(),
    "l1": SmoothedL1(),
    "exp": Exponential(),
    "sqrt": SmoothedL1(1e-4),
}


def make_penalty(
    penalty: str | Contrast, pooling: Any, *, n_codes: int, signs: np.ndarray | None = None
) -> PenaltyFunction:
    """Return the penalty of a name or contrast, or that of the pools if there are any.

    Parameters
    ----------
    penalty : str or contrast
        One of `PENALTIES`, or ``y -> (G(y), G'(y), ...)``.
    pooling : {"1d", "2d"}, array-like of shape (n_codes,), pooling object or None
        Neighbours on a ring or on a grid as square as it can be, 3 wide; or the group of every code.
    n_codes : int
        Number of codes.
    signs : ndarray of shape (n_codes,), optional
        1 for a penalty, -1 for a reward.
    """
    if not isinstance(penalty, str):
        check_contrast(penalty)
    if pooling is None:
        return Elementwise(PENALTIES[penalty] if isinstance(penalty, str) else penalty, signs)
    if penalty != "logcosh":
        raise ValueError(
            f"penalty={penalty!r} is not used with pooling, whose penalty is the root of the pooled energy; "
            f"give pooling=None with it, or leave penalty at 'logcosh'"
        )
    return Pooled(_make_pooling(pooling, n_codes), signs)


def _make_pooling(pooling: Any, n_codes: int) -> CodePooling:
    if isinstance(pooling, str):
        if pooling not in ("1d", "2d"):
            raise ValueError(f"pooling={pooling!r} must be '1d', '2d', groups or a pooling object")
        shape: tuple[int, ...] = (n_codes,)
        if pooling == "2d":
            # The most square grid: its shorter side is the largest divisor up to the root.
            rows = next(d for d in range(isqrt(n_codes), 0, -1) if n_codes % d == 0)
            if rows > 1 and n_codes // rows > 3:  # a grid of 3 x 3 at most would be one pool
                shape = (rows, n_codes // rows)
        pooling = TorusPooling(shape, width=3 if max(shape) > 3 else 1)
    elif not hasattr(pooling, "average"):
        pooling = GroupPooling(pooling)
    found: CodePooling = pooling
    found.check(n_codes)
    return found
