"""A network of layers computed slowly: plain NumPy in float64, patch by patch, from what was learned."""

import numpy as np
import pytest
from reference import gaussian_mean

PLAIN_POOLING = {
    "sum": lambda codes: codes.sum(axis=0),
    "mean": lambda codes: codes.mean(axis=0),
    "max": lambda codes: codes.max(axis=0),
    "l2": lambda codes: np.sqrt((codes**2).sum(axis=0)),
}


def plain_codes(y, D, encoder):
    """Return the codes of one white patch by the formulas of the paper."""
    s, z = D @ y, np.sqrt(((D - y) ** 2).sum(axis=1))
    if encoder == "soft-threshold":
        return np.concatenate([np.maximum(0, s - 0.25), np.maximum(0, -s - 0.25)])
    if encoder == "triangle":
        return np.maximum(0, z.mean() - z)
    if encoder == "sigmoid":
        return 1 / (1 + np.exp(-s))
    assert encoder == "hard"
    return (np.arange(len(D)) == z.argmin()).astype(float)


def codes_of_places(image, group, one, layer):
    """Return the codes of all patches of an image, by row and column."""
    p, step = layer.patch_size, layer.stride
    height, width, _ = image.shape
    found = []
    for top in range(0, height - p + 1, step):
        row = []
        for left in range(0, width - p + 1, step):
            x = image[top : top + p, left : left + p][:, :, group].reshape(-1)
            if x.max() == x.min():
                x = np.zeros_like(x)
            else:
                x = (x - x.mean()) / np.sqrt(x.var() + one.normalizer_.eps_)
            y = np.asarray(one.whitener_.whitening_, float) @ (x - one.whitener_.mean_)
            row.append(plain_codes(y, np.asarray(one.filters_, float), layer.encoder))
        found.append(row)
    return np.array(found)


def pooled(codes, grid, pooling):
    """Return the codes of every cell; the first cells are one larger where places do not divide evenly."""
    cells = []
    for rows in np.array_split(np.arange(codes.shape[0]), grid[0]):
        for columns in np.array_split(np.arange(codes.shape[1]), grid[1]):
            if pooling == "gaussian":
                cells.append(gaussian_mean(codes, rows, columns))
            else:
                inside = codes[rows][:, columns].reshape(-1, codes.shape[2])
                cells.append(PLAIN_POOLING[pooling](inside))
    return np.array(cells)


def plain_features(network, image):
    """Return the features of one image: every layer pooled over the grid, the last from its codes."""
    found, maps = [], np.asarray(image, float)
    grids = network.grid if isinstance(network.grid[0], tuple) else [network.grid]
    for i, layer in enumerate(network.layers_):
        codes = [
            codes_of_places(maps, group, one, layer)
            for group, one in zip(layer.groups_, layer.features_, strict=True)
        ]
        codes = np.concatenate(codes, axis=2)
        down, across = (-(-n // layer.pool_size) for n in codes.shape[:2])
        maps = pooled(codes, (down, across), layer.pooling).reshape(down, across, -1)
        last = i == len(network.layers_) - 1
        what = codes if last else maps
        for grid in grids:
            grid = tuple(map(min, grid, what.shape[:2]))
            if last or network.output == "all":
                found.append(pooled(what, grid, layer.pooling).ravel())
    return np.concatenate(found)


@pytest.fixture(scope="session")
def plain_transform():
    """A function that computes what a fitted network should give."""

    def transform(network, images):
        features = np.array([plain_features(network, image) for image in images])
        if network.mirror:
            mirrored = np.array([plain_features(network, image[:, ::-1]) for image in images])
            features = (features + mirrored) / 2
        return features**network.power

    return transform
