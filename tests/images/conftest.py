"""Small images, and their features computed slowly: scikit-learn's patches and plain NumPy in float64."""

import numpy as np
import pytest
from reference import gaussian_mean
from sklearn.decomposition import sparse_encode
from sklearn.feature_extraction.image import extract_patches_2d

PLAIN_POOLING = {
    "sum": np.sum,
    "mean": np.mean,
    "max": np.max,
    "l2": lambda codes, axis: np.sqrt((codes**2).sum(axis=axis)),
}


def plain_pool(codes, grid, pooling):
    """Return the pooled codes of every cell, from codes by row and column."""
    pooled = []
    for rows in np.array_split(np.arange(codes.shape[0]), grid[0]):
        for columns in np.array_split(np.arange(codes.shape[1]), grid[1]):
            if pooling == "gaussian":
                pooled.append(gaussian_mean(codes, rows, columns))
            else:
                pooled.append(PLAIN_POOLING[pooling](codes[rows][:, columns], axis=(0, 1)))
    return pooled


@pytest.fixture
def images(rng):
    """Twelve colour images with some structure: smooth, with edges, and noise."""
    x = np.arange(11)[None, None, :] + rng.integers(0, 9, size=(12, 1, 1))
    y = np.arange(10)[None, :, None] * rng.integers(0, 3, size=(12, 1, 1))
    base = 128 + 90 * np.sign(np.sin((x + y) / 2.5))[..., None] * rng.uniform(
        0.3, 1, size=(12, 1, 1, 3)
    )
    return np.clip(base + rng.normal(0, 12, size=(12, 10, 11, 3)), 0, 255).astype(np.uint8)


def signs(S):
    return np.hstack([np.maximum(S, 0), np.maximum(-S, 0)])


def plain_codes(Y, D, encoder):
    """Return the codes of white rows, from the formulas of the encoders."""
    Z = np.linalg.norm(Y[:, None, :] - D, axis=2)
    S = Y @ D.T
    if encoder == "hard":
        return np.eye(len(D))[Z.argmin(axis=1)]
    if encoder == "triangle":
        return np.maximum(0, Z.mean(axis=1, keepdims=True) - Z)
    if encoder == "soft-threshold":
        return np.hstack([np.maximum(0, S - 0.25), np.maximum(0, -S - 0.25)])
    if encoder == "sigmoid":
        return 1 / (1 + np.exp(-S))
    if encoder == "sparse":
        return signs(sparse_encode(Y, D, algorithm="lasso_cd", alpha=1.0, max_iter=10_000))
    lengths = np.linalg.norm(D, axis=1)
    codes = sparse_encode(Y, D / lengths[:, None], algorithm="omp", n_nonzero_coefs=5)
    return signs(codes / lengths)


@pytest.fixture(scope="session")
def slow_features():
    """A function that computes what a fitted ImageFeatures should give."""

    def features(model, images, *, encoder=None):
        p, s = model.patch_size, model.stride
        several = isinstance(model.grid[0], tuple)
        found = []
        for image in images:
            image = image.reshape(*image.shape[:2], -1).astype(np.float64)
            patches = extract_patches_2d(image, (p, p))
            all_places = [n - p + 1 for n in image.shape[:2]]
            strided = patches.reshape(*all_places, -1)[::s, ::s]
            P = strided.reshape(-1, strided.shape[2])
            P = (P - P.mean(axis=1, keepdims=True)) / np.sqrt(
                P.var(axis=1, keepdims=True) + model.normalizer_.eps_
            )
            Y = (P - model.whitener_.mean_) @ model.whitener_.whitening_.T
            D = np.asarray(model.filters_, np.float64)
            codes = plain_codes(Y, D, encoder or model.encoder).reshape(*strided.shape[:2], -1)
            grids = model.grid if several else [model.grid]
            cells = [cell for grid in grids for cell in plain_pool(codes, grid, model.pooling)]
            found.append(np.concatenate(cells))
        return np.array(found)

    return features
