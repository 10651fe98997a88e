"""The pooled penalty on a NumPy block, ``sum_j t_j √(ε + H_j s²)`` on a torus, row by row in the cache."""

from __future__ import annotations

import numpy as np

from clusterica.ops.cpu.compiling import compiler

# Sums along a row of codes may be taken in any order, so that they vectorise.
compiled = compiler(fastmath={"reassoc", "contract", "arcp"})


def torus_penalty(
    S: np.ndarray, shape: tuple[int, int], width: int, eps: float, signs: np.ndarray | None
) -> tuple[float, np.ndarray]:
    """Return the sum over the block and the slopes; see :class:`clusterica.ops.penalty.Pooled`.

    Parameters
    ----------
    S : ndarray of shape (n_rows, n_codes)
        Codes.
    shape : tuple (rows, columns)
        How the codes are laid out; (1, n_codes) is a ring.
    width : int
        Neighbours in each direction; a side no longer than that is pooled as a whole.
    eps : float
        The ε.
    signs : ndarray of shape (n_codes,) or None
        The t.
    """
    S = np.ascontiguousarray(S)
    t = np.ones(S.shape[1]) if signs is None else signs
    size = min(width, shape[0]) * min(width, shape[1])
    slopes = np.empty_like(S)
    as_codes = S.dtype.type
    value = _penalty(S, *shape, width, as_codes(1 / size), as_codes(eps), t.astype(S.dtype), slopes)
    return value, slopes


@compiled
def _penalty(S, rows, columns, width, share, eps, t, slopes):  # type: ignore[no-untyped-def]
    n, K = S.shape
    v, spread = np.empty(K, S.dtype), np.empty(K, S.dtype)
    total = 0.0
    for i in range(n):
        s, out = S[i], slopes[i]
        for k in range(K):
            v[k] = s[k] * s[k]
        _spread(v, spread, rows, columns, width)
        part = S.dtype.type(0)
        for k in range(K):
            root = np.sqrt(v[k] * share + eps)
            part += t[k] * root
            v[k] = t[k] / root
        total += part
        _spread(v, spread, rows, columns, width)
        for k in range(K):
            out[k] = s[k] * v[k] * share
    return total


@compiled
def _spread(v, spread, rows, columns, width):  # type: ignore[no-untyped-def]
    """Replace every entry by the sum over its neighbours, along columns and then along rows."""
    if columns <= width:
        for r in range(rows):
            start = r * columns
            spread[start : start + columns] = v[start : start + columns].sum()
    else:
        # As if all codes were one line: long loops vectorise. Then the ends of every row once more.
        K, reach = len(v), width // 2
        spread[:] = v
        for shift in range(1, reach + 1):
            _add(spread[: K - shift], v[shift:])
            _add(spread[shift:], v[: K - shift])
        for r in range(rows):
            start = r * columns
            for near in range(2 * reach):
                c = near if near < reach else columns - 1 - (near - reach)
                total = v[start + c]
                for shift in range(1, reach + 1):
                    # Without a division, which would take longer than all else here.
                    right = c + shift if c + shift < columns else c + shift - columns
                    left = c - shift if c >= shift else c - shift + columns
                    total += v[start + left] + v[start + right]
                spread[start + c] = total
    # Along rows a shift is two copies of contiguous numbers.
    first, last = (0, rows - 1) if rows <= width else (-(width // 2), width // 2)
    v[:] = 0
    for shift in range(first, last + 1):
        cut = (shift % rows) * columns
        kept = rows * columns - cut
        _add(v[:kept], spread[cut:])
        _add(v[kept:], spread[:cut])


@compiled
def _add(out, v):  # type: ignore[no-untyped-def]
    for k in range(len(out)):
        out[k] += v[k]
