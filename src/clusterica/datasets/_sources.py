"""Mixtures of independent sources, X = S Aᵀ, with unit variance where it exists."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from clusterica.arrays import as_generator
from clusterica.datasets._common import brief

# Draws an array of a shape; only Student's t uses the degrees of freedom.
Sampler = Callable[[np.random.Generator, tuple[int, int], float], np.ndarray]


class SparseSources(NamedTuple):
    """A draw of the ICA model ``x = A s``."""

    X: np.ndarray
    """Mixed signals, ``S @ A.T``, of shape (n_samples, n_mixtures)."""
    S: np.ndarray
    """Sources, of shape (n_samples, n_features)."""
    A: np.ndarray
    """Mixing matrix, of shape (n_mixtures, n_features)."""

    def __repr__(self) -> str:
        return brief(self)


def make_sparse_sources(
    n_samples: int,
    n_features: int,
    *,
    distribution: Any = "laplace",
    df: float = 5.0,
    mixing: ArrayLike | str | None = None,
    random_state: Any = None,
) -> SparseSources:
    """Draw independent sources, most of them heavy-tailed, and mix them.

    Parameters
    ----------
    n_samples : int
        Number of rows.
    n_features : int
        Number of sources.
    distribution : {"laplace", "hypsecant", "logistic", "t", "cauchy", "uniform", "gaussian"} or frozen \
            scipy.stats distribution, default="laplace"
        Distribution of each source, centred at zero. All but Cauchy's, which has no variance, are
        scaled to variance one; Student's t is so for ``df`` above 2. The last two are not heavy-tailed:
        clusters do not find such sources. A distribution of SciPy, such as ``scipy.stats.gennorm(0.5)``,
        is centred where it has a mean and scaled where it has a variance.
    df : float, default=5.0
        Degrees of freedom of Student's t; the other distributions ignore it.
    mixing : None, "orthogonal" or array of shape (n_mixtures, n_features), default=None
        The mixing matrix A. None is the identity, so that X is S. "orthogonal" draws a random
        orthogonal matrix, under which white sources stay white.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the draw; an integer gives the same draw every time.

    Returns
    -------
    SparseSources
        The named tuple ``(X, S, A)``.

    Examples
    --------
    >>> from clusterica.datasets import make_sparse_sources
    >>> X, S, A = make_sparse_sources(100, 2, mixing="orthogonal", random_state=0)
    >>> X.shape, S.shape, A.shape
    ((100, 2), (100, 2), (2, 2))
    """
    draw = _sampler(distribution)
    if not df > 0:
        raise ValueError(f"df is {df!r}; it must be a positive number, above 2 for unit variance.")
    rng = as_generator(random_state)
    if mixing is None:
        A = np.eye(n_features)
    elif isinstance(mixing, str):
        if mixing != "orthogonal":
            raise ValueError(f"mixing is {mixing!r}; it must be None, 'orthogonal' or a matrix.")
        Q, R = np.linalg.qr(rng.standard_normal((n_features, n_features)))
        A = Q * np.sign(np.diag(R))  # signs of R make Q uniform over rotations and reflections
    else:
        A = np.asarray(mixing, dtype=np.float64)
    if A.ndim != 2 or A.shape[1] != n_features:
        raise ValueError(
            f"mixing has shape {A.shape}; it must be a matrix with n_features={n_features} columns, one for "
            "each source."
        )
    S = draw(rng, (n_samples, n_features), df)
    return SparseSources(X=S if mixing is None else S @ A.T, S=S, A=A)


# Centred at zero, with unit variance where there is a variance.
DISTRIBUTIONS: dict[str, Sampler] = {
    # p(s) ∝ exp(-√2 |s|), the distribution of Vinnikov & Shalev-Shwartz
    "laplace": lambda rng, shape, df: rng.laplace(scale=math.sqrt(0.5), size=shape),
    # p(s) = sech(π s / 2) / 2
    # by its quantiles, (2/π) log tan(π u / 2); the smallest u keeps the logarithm finite
    "hypsecant": lambda rng, shape, df: (
        (2 / np.pi) * np.log(np.tan((np.pi / 2) * np.maximum(rng.random(shape), 2.0**-54)))
    ),
    # variance scale² π² / 3
    "logistic": lambda rng, shape, df: rng.logistic(scale=math.sqrt(3) / math.pi, size=shape),
    # variance df / (df - 2) above two degrees of freedom, infinite below
    "t": lambda rng, shape, df: (
        rng.standard_t(df, size=shape) * (math.sqrt((df - 2) / df) if df > 2 else 1.0)
    ),
    # neither mean nor variance
    "cauchy": lambda rng, shape, df: rng.standard_cauchy(size=shape),
    # variance h² / 3 on [-h, h]
    "uniform": lambda rng, shape, df: rng.uniform(-math.sqrt(3), math.sqrt(3), size=shape),
    # no ICA can separate Gaussian sources
    "gaussian": lambda rng, shape, df: rng.standard_normal(shape),
}


def _sampler(distribution: Any) -> Sampler:
    """Return the function that draws from a distribution, given by name or as one of SciPy."""
    if isinstance(distribution, str) and distribution in DISTRIBUTIONS:
        return DISTRIBUTIONS[distribution]
    # Only a frozen distribution has all its parameters; ``dist`` is its family.
    if hasattr(distribution, "dist") and hasattr(distribution, "rvs"):
        # NaN or infinity where the distribution has none.
        mean, std = float(distribution.mean()), float(distribution.std())

        def draw(rng: np.random.Generator, shape: tuple[int, int], df: float) -> np.ndarray:
            S = np.asarray(distribution.rvs(size=shape, random_state=rng), dtype=np.float64)
            # Heavy tails may have no mean or no variance: then there is nothing to divide by.
            S -= mean if math.isfinite(mean) else 0.0
            S /= std if math.isfinite(std) and std > 0 else 1.0
            return S

        return draw
    raise ValueError(
        f"the distribution of the sources is {distribution!r}; it must be one of {', '.join(DISTRIBUTIONS)}, "
        "or a distribution of scipy.stats with its parameters, such as scipy.stats.gennorm(0.5)."
    )
