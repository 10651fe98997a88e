"""Features of images patch by patch, and groups of dependent inputs."""

import numpy as np
import reference
from cases import assert_close, compared, host, put, tables
from hypothesis import assume
from hypothesis import strategies as st

from clusterica.images import ImageFeatures
from clusterica.networks import DependencyGroups

ENCODERS = {
    "soft-threshold": lambda Y, D: np.maximum(
        0, np.concatenate([Y @ D.T - 0.25, -Y @ D.T - 0.25], axis=1)
    ),
    "triangle": reference.triangle,
    "sigmoid": lambda Y, D: 1 / (1 + np.exp(-Y @ D.T)),
}
POOLINGS = {
    "sum": lambda codes: codes.sum(axis=0),
    "mean": lambda codes: codes.mean(axis=0),
    "max": lambda codes: codes.max(axis=0),
    "l2": lambda codes: np.sqrt((codes**2).sum(axis=0)),
}


@st.composite
def pictures(draw):
    """Pixels of noise in 0..255, as bytes or floats, in several layouts or as a tensor."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape = draw(st.integers(1, 4)), draw(st.integers(5, 8)), draw(st.integers(5, 8))
    channels = draw(st.sampled_from([1, 3]))
    images = rng.integers(0, 256, (*shape, channels))
    dtype = draw(st.sampled_from([np.uint8, np.float32, np.float64]))
    return images.astype(np.float64), dtype, draw(st.sampled_from(["numpy", "fortran", "torch"]))


def features(image, model, patch_size, stride, encoder, pooling, grid):
    """All patches of an image, one after another; then cells of the places."""
    down = range(0, image.shape[0] - patch_size + 1, stride)
    across = range(0, image.shape[1] - patch_size + 1, stride)
    patches = [image[y : y + patch_size, x : x + patch_size].ravel() for y in down for x in across]
    Y, roots = reference.contrast(np.array(patches), model.normalizer_.eps_)
    T, mean = host(model.whitener_.whitening_), host(model.whitener_.mean_)
    codes = ENCODERS[encoder]((Y - mean) @ T.T, host(model.filters_))
    codes = codes.reshape(len(down), len(across), -1)
    cells = [
        reference.gaussian_mean(codes, rows, columns)
        if pooling == "gaussian"
        else POOLINGS[pooling](codes[np.ix_(rows, columns)].reshape(-1, codes.shape[2]))
        for rows in np.array_split(np.arange(len(down)), grid[0])
        for columns in np.array_split(np.arange(len(across)), grid[1])
    ]
    return np.concatenate(cells), roots.min(), len(patches)


@compared(
    pictures(),
    st.sampled_from(sorted(ENCODERS)),
    st.sampled_from(sorted([*POOLINGS, "gaussian"])),
    st.integers(1, 2),
    st.sampled_from([(1, 1), (2, 2), (1, 2)]),
    st.integers(0, 2**31),
    share=0.5,
)
def test_image_features(drawn, encoder, pooling, stride, grid, seed):
    images, dtype, place = drawn
    X = put(images.astype(dtype), place)
    model = ImageFeatures(
        3,
        patch_size=3,
        n_patches=100,
        encoder=encoder,
        pooling=pooling,
        stride=stride,
        grid=grid,
        random_state=seed,
    )
    found = host(model.fit(X).transform(X))
    T, D = host(model.whitener_.whitening_), host(model.filters_)
    d, eps = T.shape[1], float(np.finfo(np.float32).eps)
    for i, image in enumerate(images):
        expected, root, n_patches = features(image, model, 3, stride, encoder, pooling, grid)
        # Contrast: ε 255 / root. Then a whitening, a product with filters (or a root of squares), and a sum.
        of_patch = 4 * (d + 8) * eps * 255 / root * (1 + d**0.5)
        of_white = d * of_patch * np.abs(T).sum(axis=1).max() + 4 * d * eps * np.abs(T).max() * d
        size = 1 + np.abs(D).sum(axis=1).max()
        of_code = 4 * of_white * size
        if encoder == "triangle":  # squares of lengths: rounding of them, over a distance
            of_code = 4 * of_white + np.sqrt(8 * d * eps) * (d + size) * 4
        error = of_code * (
            n_patches if pooling == "sum" else n_patches**0.5 if pooling == "l2" else 1
        )
        assert_close(
            found[i], expected, error + 8 * n_patches * eps * np.abs(expected).max(), f"image {i}"
        )


@compared(
    tables(min_rows=12, max_columns=6, far=False),
    st.integers(1, 3),
    st.sampled_from(["energy", "correlation"]),
    st.integers(0, 2**31),
    share=0.5,
)
def test_dependency_groups(table, size, measure, seed):
    mean, covariance = reference.covariance(table.X)
    values, V = np.linalg.eigh(covariance)
    assume(table.d > size and values[0] > 1e-3 * values[-1] and values[-1] > 1e-9)
    if measure == "energy":
        T = V @ np.diag(1 / np.sqrt(values + 0.01 * values.mean())) @ V.T
        E = ((table.X - mean) @ T.T) ** 2
    else:
        E = table.X
    assume((E.std(axis=0) > 1e-2 * np.abs(E).max(axis=0)).all())
    expected = np.atleast_2d(np.corrcoef(E.T))
    expected = expected if measure == "energy" else np.abs(expected)
    # Energies are off by ε times the condition of the whitening; a correlation divides by their deviation.
    condition = (values[-1] / values[0]) * (np.abs(table.X).max() ** 2 / values[-1] + 1)
    ratio = (np.abs(E).max(axis=0) / E.std(axis=0)).max()
    error = table.rounding(table.n + table.d, condition * ratio**2 * table.d)
    assume(error < 0.05)
    model = DependencyGroups(size, measure=measure, random_state=seed).fit(table.rows)
    assert sorted({int(i) for group in model.groups_ for i in group}) == list(range(table.d))
    for group, dependency in zip(model.groups_, model.dependency_, strict=True):
        seed_of = expected[group[0]]
        assert len(group) == size == len(set(group.tolist()))
        assert_close(dependency, np.append(1.0, seed_of[group[1:]]), error, "dependency_")
        left_out = np.setdiff1d(np.arange(table.d), group)
        if size > 1:
            assert seed_of[group[1:]].min() >= seed_of[left_out].max() - 2 * error
            assert (np.diff(dependency[1:]) <= 0).all()
