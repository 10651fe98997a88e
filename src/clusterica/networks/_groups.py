r"""Groups of inputs that depend on each other, by :math:`d(j, k) = \mathrm{corr}(z_j^2, z_k^2)`."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np

from clusterica.arrays import (
    Estimator,
    Interval,
    Rows,
    StrOptions,
    as_generator,
    check_rows,
    check_scale,
    fit_context,
    map_reduce,
    to_host,
)
from clusterica.ops.energy import (
    EnergySums,
    PairSums,
    column_sums,
    energy_correlations,
    energy_sums,
    pair_energy_correlations,
    pair_sums,
)
from clusterica.preprocessing import Whitener

# Share of the mean eigenvalue that whitening adds: without it directions of noise count as much as others.
EPS = 0.01
# One walk over the rows computes the pairwise dependencies of so many seeds.
SEEDS_AT_A_TIME = 64


class DependencyGroups(Estimator):
    r"""Find overlapping groups of inputs that depend on each other, each small enough for K-means.

    Coates & Ng 2012, section 5.1: inputs are whitened, so that none are correlated, and the dependency of two
    of them is the correlation of their squares, :math:`d(j, k) = \mathrm{corr}(z_j^2, z_k^2)`. A group is a
    seed and the ``size - 1`` inputs that depend most on it.

    Parameters
    ----------
    size : int, default=200
        Number of inputs of a group. If there are not more inputs, all are one group.
    n_groups : int or None, default=None
        Number of groups. None adds groups until every input is in one: seeds are drawn from the inputs that
        no group has yet. With a number, seeds are drawn several times, and the draw whose groups depend
        most on their seeds is kept; groups with the same inputs count once, so there may be fewer.
    measure : {"energy", "correlation", "random", "all"}, default="energy"
        Dependency of two inputs: their energy correlation; the absolute value of their correlation; none, so
        that groups are drawn at random; or one group of all inputs. The last two are what learned groups
        are compared with.
    method : {"auto", "exact", "pairwise"}, default="auto"
        How energy correlations are computed. "exact" whitens all inputs together, which takes
        ``32 * n_features**2`` bytes. "pairwise" whitens each seed and input by themselves, which takes
        little memory for any number of inputs. Of 800 maps of CIFAR-10 its groups of 200 have 80 % of the
        inputs of the exact ones, groups of 50 have 72 %. "auto" is exact up to 10,000 inputs.
    random_state : int, Generator, RandomState or None, default=None
        Draws the seeds.

    Attributes
    ----------
    groups_ : list of ndarray
        Indices of the inputs of each group: the seed first, then in the order of falling dependency.
    dependency_ : list of ndarray
        Dependency of those inputs on the seed; 1 for the seed itself, NaN where groups are random.
    n_features_in_ : int
        Number of inputs.

    References
    ----------
    .. [1] A. Coates and A. Y. Ng, "Learning feature representations with K-means", 2012.
    .. [2] A. Coates and A. Y. Ng, "Selecting receptive fields in deep networks", NIPS 2011.

    Examples
    --------
    Two pairs of inputs, each with a variance of its own that changes from row to row:

    >>> import numpy as np
    >>> from clusterica.networks import DependencyGroups
    >>> rng = np.random.default_rng(0)
    >>> variance = np.repeat(rng.gamma(1.0, size=(5000, 2)), 2, axis=1)
    >>> X = np.sqrt(variance) * rng.normal(size=(5000, 4))
    >>> model = DependencyGroups(size=2, random_state=0).fit(X)
    >>> sorted(sorted(group.tolist()) for group in model.groups_)
    [[0, 1], [2, 3]]
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "size": [Interval(Integral, 1, None, closed="left")],
        "n_groups": [Interval(Integral, 1, None, closed="left"), None],
        "measure": [StrOptions({"energy", "correlation", "random", "all"})],
        "method": [StrOptions({"auto", "exact", "pairwise"})],
        "random_state": ["random_state", np.random.Generator],
    }

    def __init__(
        self,
        size: int = 200,
        *,
        n_groups: int | None = None,
        measure: str = "energy",
        method: str = "auto",
        random_state: Any = None,
    ) -> None:
        self.size = size
        self.n_groups = n_groups
        self.measure = measure
        self.method = method
        self.random_state = random_state

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the groups.

        Parameters
        ----------
        X : array-like, tensor, Dask array or iterable of blocks, (n_samples, n_features)
            The inputs. Of the maps of a layer, take some positions of all images; 100,000 are enough.
        y : ignored

        Returns
        -------
        self : DependencyGroups
        """
        rows = check_rows(self, X, reset=True, min_rows=2)
        check_scale(rows)
        d, rng = rows.n_features, as_generator(self.random_state)
        # There is nothing to choose: all inputs are one group.
        if self.measure == "all" or d <= self.size:
            self.groups_, self.dependency_ = [np.arange(d)], [np.full(d, np.nan)]
            return self
        self.check_inputs(d)
        energy = self.measure == "energy"
        # From seeds to their dependency on all inputs, shape (n_seeds, n_inputs).
        dependency_on: Callable[[np.ndarray], np.ndarray]
        if self.measure == "random":
            dependency_on = lambda seeds: rng.random((len(seeds), d))  # noqa: E731
        elif energy and self._is_exact(d):
            _check_memory(d, rows.place.fit_memory)
            whitener = Whitener(eps=f"{100 * EPS}%").fit(X)
            T, mean = (
                np.asarray(to_host(a), rows.dtype) for a in (whitener.whitening_, whitener.mean_)
            )
            total = map_reduce(energy_sums, rows, T, mean)
            dependency_on = energy_correlations(EnergySums(*map(to_host, total))).__getitem__
        else:
            dependency_on = _pairwise(rows, energy=energy)
        if self.n_groups is None:
            found = self._cover(d, dependency_on, rng)
        elif self.measure == "random":
            found = self._draw(d, self.n_groups, dependency_on, rng)
        else:
            # The paper leaves the number of draws open.
            draws = [self._draw(d, self.n_groups, dependency_on, rng) for _ in range(5)]
            found = max(draws, key=lambda draw: np.mean([values[1:].mean() for _, values in draw]))
        self.groups_ = [group for group, _ in found]
        self.dependency_ = [values for _, values in found]
        return self

    def check_inputs(self, n_inputs: int) -> None:
        """Refuse more groups than so many inputs can have.

        Parameters
        ----------
        n_inputs : int
            Number of inputs.
        """
        if self.measure == "all" or n_inputs <= self.size or self.n_groups is None:
            return
        if self.n_groups > n_inputs:
            raise ValueError(
                f"n_groups={self.n_groups} is more than the {n_inputs} inputs, each of which can be a seed "
                "once; lower n_groups"
            )

    def _is_exact(self, n_inputs: int) -> bool:
        # Coates & Ng 2012 call the exact computation practical for fewer than 10,000 inputs.
        return self.method == "exact" or (self.method == "auto" and n_inputs <= 10_000)

    def _cover(
        self, d: int, dependency_on: Callable[[np.ndarray], np.ndarray], rng: np.random.Generator
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return groups that have every input, each from a seed that no group before it has."""
        found, is_left = [], np.ones(d, dtype=bool)
        while is_left.any():
            # In a random order, without those that a group has by then: each is a random one of the rest.
            seeds = rng.permutation(np.flatnonzero(is_left))[:SEEDS_AT_A_TIME]
            for seed, values in zip(seeds, dependency_on(seeds), strict=True):
                if is_left[seed]:
                    found.append(self._group(seed, values))
                    is_left[found[-1][0]] = False
        return found

    def _draw(
        self,
        d: int,
        n_groups: int,
        dependency_on: Callable[[np.ndarray], np.ndarray],
        rng: np.random.Generator,
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return groups of seeds drawn at random, those with the same inputs once."""
        found: dict[tuple[int, ...], tuple[np.ndarray, np.ndarray]] = {}
        seeds = rng.choice(d, size=n_groups, replace=False)
        for start in range(0, n_groups, SEEDS_AT_A_TIME):
            batch = seeds[start : start + SEEDS_AT_A_TIME]
            for seed, values in zip(batch, dependency_on(batch), strict=True):
                group = self._group(seed, values)
                # Two seeds may have the same group, which would learn the same filters twice.
                found.setdefault(tuple(np.sort(group[0])), group)
        return list(found.values())

    def _group(self, seed: int, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the seed, the inputs that depend most on it, and how much."""
        values = values.copy()
        # The seed comes first, whatever its dependency on itself was computed to be.
        values[seed] = np.inf
        # Of thousands of inputs only the first few are sorted.
        group = np.argpartition(-values, self.size - 1)[: self.size]
        group = group[np.argsort(-values[group], kind="stable")]
        values[seed] = 1.0
        return group, np.full(self.size, np.nan) if self.measure == "random" else values[group]


def _check_memory(d: int, budget: int) -> None:
    """Refuse to whiten more inputs together than fit in memory; the whitener would advise groups of them."""
    if 32 * d * d > budget:
        raise ValueError(
            f"whitening {d} inputs together takes about {32 * d * d / 2**20:.0f} MiB, over the "
            f"{budget / 2**20:.0f} MiB that it may take; use method='pairwise', which takes little memory, "
            "or raise that with clusterica.config_context(memory=...)"
        )


def _pairwise(rows: Rows, *, energy: bool) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function from seeds to dependencies that walks over the rows for each batch of seeds."""
    n, about = rows.n_rows, rows.glance().mean(axis=0, dtype=np.float64)
    first, second, _ = map_reduce(column_sums, rows, about.astype(rows.dtype))
    # Moments about a point near the mean keep their digits where the mean is large; then moved to the mean.
    shift = to_host(first) / n
    variance = to_host(second) / n - shift**2
    mean = (about + shift).astype(rows.dtype)
    # Inputs that are constant but for rounding depend on nothing.
    least = 4 * np.finfo(rows.dtype).eps ** 2 * (variance + mean.astype(np.float64) ** 2)
    is_constant = variance <= least
    scale = np.where(is_constant, 0, 1 / np.sqrt(np.where(is_constant, 1, variance)))
    # Fourth moments need the exact mean, so a second walk: they cannot be moved without third moments.
    _, _, fourth = map_reduce(column_sums, rows, mean)
    fourth = to_host(fourth) / n * scale**4

    def dependency_on(seeds: np.ndarray) -> np.ndarray:
        total = PairSums(
            *map(to_host, map_reduce(pair_sums, rows, mean, scale.astype(rows.dtype), seeds))
        )
        # Inputs have unit variance here: the mean product is the correlation.
        if not energy:
            return np.asarray(np.abs(total.uv / n))
        return np.asarray(pair_energy_correlations(total, n, fourth, seeds, eps=EPS))

    return dependency_on
