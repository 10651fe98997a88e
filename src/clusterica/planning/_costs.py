"""What a fit does: products, passes over the data and numbers made on the way, by the size of the problem.

One function for each family of estimators. With n rows of d features, k centres or components, t iterations:

==================  ===================================  ============
Estimator           Operations in products               Passes
==================  ===================================  ============
K-means             2 n k d for each iteration           t + 3
Whitener            2 n d²                               3
ClusterICA          2 n (d k + k²) for each iteration    1.5 t + 8
RICA                4 n d k for each iteration           1.2 t + 4
LinearSVC           4 n d c for each iteration           1.2 t + 6
ImageFeatures       those of its learner, on patches     1
==================  ===================================  ============

The counts of passes include those that check the data, draw a sample and set attributes at the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple


class Size(NamedTuple):
    """A problem: what a cost is a function of."""

    shape: tuple[int, ...]
    n_iter: int
    n_classes: int
    method: str
    """``"fit"`` or ``"transform"``."""
    on_host: bool = True
    """Whether the work is done by compiled code, and not on a device."""


class Work(NamedTuple):
    """What is done; all of it is counted, not measured."""

    products: float
    """Operations in matrix products."""
    passes: float
    """Times that the data is read."""
    numbers: float = 0.0
    """Numbers that are made on the way and read again, which costs bandwidth."""
    kept: float = 0.0
    """Numbers that are kept in memory beside the data and the blocks: samples, results, parameters."""
    width: float = 0.0
    """Numbers that a block has for each row, beside the row."""


def kmeans(model: Any, size: Size) -> Work:
    """K-means of every rule: an assignment of all rows for each iteration."""
    n, d = size.shape
    # An axis is multiplied once for both of its centres.
    k = int(model.n_axes or d if hasattr(model, "n_axes") else model.n_clusters)
    one = 2.0 * n * k * d
    if size.method == "transform":
        return Work(one, 2, n * k, kept=n * k, width=k)
    init = getattr(model, "init", "k-means++")
    # k-means++ chooses its centres from a sample of this size.
    m = min(n, max(10_000, 3 * k))
    # Greedy k-means++ tries 2 + log k rows of the sample for each centre: it reads the sample, and makes six
    # arrays of losses in float64, two numbers of float32 each, that are written and read.
    start = start_numbers = 0.0
    if isinstance(init, str) and init == "k-means++":
        trials = 2 + math.log(k)
        start, start_numbers = 2.0 * m * k * d * trials, m * k * (d + 24 * trials)
    last = 1 if model.compute_labels else 0
    # The orthogonal start is iterations with orthogonal axes, as many as those that follow.
    rounds = 2 if isinstance(init, str) and init == "orthogonal" else 1
    # Batches renew the centres more often, but an iteration is a pass over all rows in any case.
    passes = rounds * size.n_iter + last
    products = model.n_init * (one * passes + start)
    kept = 3 * m * d + 4 * k * d + last * 2 * n
    numbers = model.n_init * (passes * n + start_numbers)
    # Compiled code makes scores in tiles that stay in the cache.
    width = 0 if size.on_host else k
    return Work(products, model.n_init * passes + 2, numbers, kept, width=width)


def whitener(model: Any, size: Size) -> Work:
    """Moments in one pass, and the eigenvectors of the covariance."""
    n, d = size.shape
    k = model.n_components or d
    if size.method == "transform":
        return Work(2.0 * n * k * d, 2, n * k, kept=n * k, width=k)
    # Eigenvectors of a symmetric matrix take about 9 d³ operations, and two products follow.
    return Work(2.0 * n * d * d + 13.0 * d**3, 3, 2 * n * d, kept=6 * d * d, width=2 * d)


def cluster_ica(model: Any, size: Size) -> Work:
    """Whitening, cosine K-means on a part of the rows, a rotation of them, and the likelihood."""
    n, d = size.shape
    k = model.n_components or d
    if size.method == "transform":
        return Work(2.0 * n * k * d, 2, n * k, kept=n * k, width=k)
    white = whitener(_Plain, size)
    if model.refine is None:
        m = min(n, model.cluster_rows or n)
        # Fewer rows are drawn once, and all of them may be read in every iteration.
        passes = 4 + (size.n_iter if m == n else 0)
        # The orthogonal start has about as many iterations as those that follow. In the end all rows are read
        # to scale the sources.
        products = 4.0 * m * k * k * size.n_iter + 2.0 * (m + n) * d * k
        clusters = Work(products, passes, kept=m * k)
        return _sum(white, clusters)
    # The default of cluster_rows.
    sources = max(k, 10)
    m = min(n, model.cluster_rows or min(400 * sources, max(n // 2, 100 * sources)))
    # Fifteen iterations of K-means, and about 30 evaluations of the contrast of the rotation.
    start = Work(2.0 * m * k * (d + 15 * k) + 30 * 4.0 * m * k * k, m / n, 40.0 * m * k, kept=m * k)
    # The line search takes half an evaluation more than there are iterations; an evaluation makes the
    # sources, their contrast and its two derivatives, with a few elementary functions.
    evaluations = 1.5 * size.n_iter + 4
    likelihood = Work(
        evaluations * 2.0 * n * (d * k + k * k),
        evaluations,
        evaluations * 12.0 * n * k,
        width=7 * k,
    )
    return _sum(white, start, likelihood)


def rica(model: Any, size: Size) -> Work:
    """L-BFGS: every evaluation has a product for the codes and one for the gradient."""
    n, d = size.shape
    k = model.n_components or d
    if size.method == "transform":
        return Work(2.0 * n * k * d, 2, n * k, kept=n * k, width=k)
    # The line search takes about a fifth more evaluations than there are iterations.
    evaluations = 1.2 * size.n_iter + 1
    return Work(
        evaluations * 4.0 * n * d * k,
        evaluations + 3,
        evaluations * 6.0 * n * k,
        24 * k * d,
        3 * k + d,
    )


def linear_svc(model: Any, size: Size) -> Work:
    """L-BFGS on the rows, or Newton's method on their Gram matrix where there are few of them."""
    n, d = size.shape
    c = size.n_classes if size.n_classes > 2 else 1
    if size.method == "transform":
        return Work(2.0 * n * d * c, 2, n * c, kept=n * c, width=c)
    # A search over C took 6 to 8 times as long as a fit (5,000 x 1,600 and 10,000 x 3,200 rows), and 13 to 18
    # times its products (8,000 x 16 rows, 14 draws).
    search = 10 if model.C == "auto" else 1
    if n <= max(d, 500):
        newton = 2.0 * n * n * d + search * c * size.n_iter * n**3 / 3.0
        return Work(newton, 4, kept=3.0 * n * n)
    evaluations = search * (1.2 * size.n_iter + 1)
    products = 4.0 * n * d * c * evaluations
    return Work(products, evaluations + 5, evaluations * 3 * n * c, 24 * d * c, width=2 * c)


def image_features(model: Any, size: Size) -> Work:
    """The learner on a sample of patches; in transform, all patches times all filters."""
    n, height, width, channels = size.shape if len(size.shape) == 4 else (*size.shape, 1)
    p, k = model.patch_size, model.n_filters
    d = p * p * channels
    if size.method == "transform":
        positions = ((height - p) // model.stride + 1) * ((width - p) // model.stride + 1)
        # One grid, or several for a pyramid; every region has its own.
        grids = model.grid if isinstance(model.grid[0], tuple | list) else [model.grid]
        n_cells = math.prod(model.regions) * sum(math.prod(grid) for grid in grids)
        # Soft thresholds have two codes for a filter.
        return Work(2.0 * n * positions * d * k, 1, n * positions * k, 2 * n * n_cells * k, 2 * k)
    m = model.n_patches
    white = whitener(_Plain, size._replace(shape=(m, d)))
    # The whitened patches, then K-means over them.
    learn = Work(2.0 * m * d * d + 2.0 * m * k * d * size.n_iter, 0, m * (3 * d + size.n_iter))
    return _sum(white, learn)._replace(passes=1.0, kept=2.0 * m * d + 6 * k * d, width=k)


class _Plain:
    """Settings of a whitener with all components."""

    n_components = None


COSTS: dict[str, Callable[[Any, Size], Work]] = {
    "BaseKMeans": kmeans,
    "Whitener": whitener,
    "ClusterICA": cluster_ica,
    "RICA": rica,
    "LinearSVC": linear_svc,
    "ImageFeatures": image_features,
}


def _sum(*parts: Work) -> Work:
    return Work(*(sum(values) for values in zip(*parts, strict=True)))._replace(
        width=max(part.width for part in parts)
    )
