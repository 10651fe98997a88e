"""Normaliser, whiteners and gradient descriptors against loops."""

import numpy as np
import reference
from cases import assert_close, compared, host, tables
from hypothesis import assume
from hypothesis import strategies as st

from clusterica.preprocessing import (
    ContrastNormalizer,
    GradientDescriptor,
    KernelWhitener,
    Whitener,
)


@compared(tables(), st.sampled_from([0.0, 0.01, 10.0, "auto", "5%"]))
def test_contrast_normalizer(table, eps):
    model = ContrastNormalizer(eps).fit(table.rows)
    if eps == "auto":
        low, high = table.X.min(), table.X.max()
        pixels = next((r for r in (1.0, 255.0, 65535.0) if high <= r), high)
        eps = 10 * ((high - low if low < 0 else pixels) / 255) ** 2
    elif eps == "5%":
        eps = 0.05 * table.X.var(axis=1).mean()
        error = table.rounding(table.d, np.abs(table.X).max())
        assert_close(model.eps_, eps, 2 * error * np.sqrt(20 * eps) + error**2, "eps_")
        eps = model.eps_
    found = host(model.transform(table.rows))
    expected, roots = reference.contrast(table.X, eps)
    # An error e of the centred values changes y by (1 + |y|) e / root; |y| is at most √d whatever the error.
    error = table.rounding(table.d, np.abs(table.X).max(axis=1)) / np.where(roots > 0, roots, 1)
    error = np.where(roots > 0, np.where(error < 0.1, 2 * error, np.inf), np.inf)
    apart = np.minimum((1 + np.abs(expected)) * error[:, None], 2 * table.d**0.5 + 1e-3)
    assert_close(found, expected, apart, "transform")


def covariance_error(table):
    """Rounding of a covariance about a point among the rows: of the rows, and of the sums of products."""
    spread = np.ptp(table.X, axis=0).max()
    of_rows = table.rounding(table.n, np.abs(table.X).max())
    return table.rounding(table.n, spread**2) + of_rows * spread + of_rows**2


@compared(
    tables(min_rows=2),
    st.sampled_from(["zca", "pca", "cholesky"]),
    st.sampled_from([0.0, 0.1, "1%"]),
)
def test_whitener(table, method, eps):
    mean, covariance = reference.covariance(table.X)
    values = np.linalg.eigvalsh(covariance)
    error = covariance_error(table)
    shift = values.mean() * 0.01 if eps == "1%" else eps
    # Directions without variance have rules of their own, which the unit tests cover.
    assume(values[0] + shift > 100 * table.d * max(error, 1e-300))
    model = Whitener(method, eps=eps).fit(table.rows)
    size = np.abs(table.X).max()
    assert_close(model.mean_, mean, table.rounding(table.n, size), "mean_")
    assert_close(model.covariance_, covariance, error, "covariance_")
    assert_close(model.eigenvalues_, values[::-1], table.d * error, "eigenvalues_")
    T, back = host(model.whitening_), host(model.dewhitening_)
    shifted = covariance + shift * np.eye(table.d)
    condition = (values[-1] + shift) / (values[0] + shift)
    white = table.rounding(table.d, condition) + table.d * error / (values[0] + shift)
    assert_close(T @ shifted @ T.T, np.eye(table.d), 4 * table.d * white, "T (Σ + ε) Tᵀ")
    assert_close(T @ back, np.eye(table.d), table.d * table.rounding(table.d, condition), "inverse")
    largest = np.abs(T).max()
    if method == "zca":
        assert_close(T, T.T, table.rounding(table.d, largest), "symmetric")
    if method == "cholesky":
        assert not np.triu(T, 1).any()
    if method == "pca":
        # Rows of T are eigenvectors over roots: orthogonal, with rising lengths.
        lengths = (T**2).sum(axis=1)
        assert (np.diff(lengths) >= -table.rounding(table.d, lengths[1:])).all()
    expected = (table.X - host(model.mean_)) @ T.T
    apart = table.rounding(table.d, largest * (size + np.abs(mean).max()))
    Y = host(model.transform(table.rows))
    assert_close(Y, expected, table.d * apart, "transform")
    # Rounding of Y, times the inverse, and the rounding of adding the mean.
    inverse = table.d * table.d * apart * np.abs(back).max() + table.rounding(table.d, size)
    inverse = inverse + table.d * table.rounding(table.d, condition) * (size + np.abs(mean).max())
    assert_close(
        model.inverse_transform(model.transform(table.rows)), table.X, inverse, "inverse_transform"
    )


@compared(
    tables(min_rows=3, max_rows=20, far=False), st.sampled_from([0.3, 1.0, 3.0]), st.booleans()
)
def test_kernel_whitener(table, gamma, normalize):
    assume(table.d > 1 or not normalize)  # nothing but a sign would be left
    X = reference.units(table.X) if normalize else table.X
    assume(np.abs(X).max() < 20)
    n = table.n
    K = reference.rbf(X, X, gamma)
    centred = K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean()
    values, vectors = np.linalg.eigh(centred / n)
    values, vectors = values[::-1], vectors[:, ::-1]
    assume(values[0] > 1e-2)
    kept = int((values >= 0.1 * values[0]).sum())
    # Rows at a distance r have γ r² off by ε γ (|x|² + |y|²) and more, which the exponential can't enlarge.
    error = table.rounding(n + table.d, 1 + gamma * (np.abs(X) ** 2).sum(axis=1).max())
    gaps = np.abs(values[:kept, None] - values[kept:][None, :]).min(initial=np.inf)
    assume(np.abs(values / values[0] - 0.1).min() > 100 * error and gaps > 100 * error)
    model = KernelWhitener(
        eigenvalue_floor=0.1, kernel="rbf", gamma=gamma, normalize=normalize, random_state=0
    )
    Z = host(model.fit(table.rows).transform(table.rows))
    assert Z.shape == (n, kept)
    assert_close(model.eigenvalues_, values[:kept], n * error, "eigenvalues_")
    # The space is right up to error / gap (Davis and Kahan), and each z is a product over its eigenvalue.
    apart = n * error * (1 / gaps + 1 / values[kept - 1])
    projector = vectors[:, :kept] @ vectors[:, :kept].T
    assert_close(Z @ Z.T / n, projector, 4 * n * apart, "products of rows")


def descriptor(x, side, n_cells, n_orientations, clip):
    """SIFT's histogram of one grey patch, pixel by pixel; and its length before it was scaled."""
    image = x.reshape(side, side)
    down, across = np.gradient(image) if side > 1 else (image * 0, image * 0)
    V = np.zeros((n_cells, n_cells, n_orientations))
    for r in range(side):
        for c in range(side):
            length = np.hypot(down[r, c], across[r, c])
            angle = np.arctan2(down[r, c], across[r, c]) / (2 * np.pi) * n_orientations
            y, z = (r + 0.5) / side, (c + 0.5) / side
            fade = np.exp(-((y - 0.5) ** 2 + (z - 0.5) ** 2) / (2 * 0.25))
            for i in range(n_cells):
                for j in range(n_cells):
                    near = max(0, 1 - n_cells * abs((i + 0.5) / n_cells - y)) * max(
                        0, 1 - n_cells * abs((j + 0.5) / n_cells - z)
                    )
                    for o in range(n_orientations):
                        turn = abs(
                            (angle - o + n_orientations / 2) % n_orientations - n_orientations / 2
                        )
                        V[i, j, o] += fade * near * max(0, 1 - turn) * length
    V = V.ravel()
    size = np.sqrt((V**2).sum())
    if size == 0:
        return V, 0.0, 1.0
    V = np.minimum(V / size, clip)
    again = np.sqrt((V**2).sum())
    return V / again, size, again


@compared(
    tables(max_rows=3, max_columns=1),
    st.integers(2, 5),
    st.sampled_from([(2, 8, 0.2), (3, 4, 1.0), (1, 5, 0.3)]),
    st.integers(0, 2**32 - 1),
    share=0.5,
)
def test_gradient_descriptor(table, side, layout, seed):
    patches = np.random.default_rng(seed).normal(size=(table.n, side * side)) * 10
    table.X = (table.X[:, :1] + patches).astype(table.dtype).astype(np.float64)
    n_cells, n_orientations, clip = layout
    model = GradientDescriptor(
        (side, side, 1), n_cells=n_cells, n_orientations=n_orientations, clip=clip
    )
    found = host(model.fit(table.rows).transform(table.rows))
    for i, x in enumerate(table.X):
        expected, size, again = descriptor(x, side, n_cells, n_orientations, clip)
        assume(size > 0)
        # Differences of pixels; every pixel counts for four cells, and lengths are divided twice.
        error = table.rounding(side * side, np.abs(x).max()) * 8 * side / size / again
        assert_close(found[i], expected, error, f"row {i}")
