"""The same codes wherever the rows live, in whatever blocks and threads they are walked."""

import numpy as np
import pytest

from clusterica import config_context
from clusterica.arrays import device_of, to_host


class Blocks:
    """An object that gives blocks of rows, anew each time it is walked."""

    def __init__(self, X):
        self.X = X

    def __iter__(self):
        return (self.X[i : i + 171] for i in range(0, 600, 171))


def memory_map(X, path):
    np.save(path / "X.npy", X)
    return np.load(path / "X.npy", mmap_mode="r")


LAYOUTS = {
    "fortran order": lambda X, path: np.asfortranarray(X),
    "every other row": lambda X, path: np.repeat(X, 2, axis=0)[::2],
    "memory map": memory_map,
    "nested lists": lambda X, path: X.tolist(),
    "iterable of blocks": lambda X, path: Blocks(X),
    "iterable of tensors": lambda X, path: Blocks(
        pytest.importorskip("torch").asarray(np.array(X))
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_of_data(make, layout, rows, atoms, tmp_path):
    X = LAYOUTS[layout](rows, tmp_path)
    expected = make(atoms).fit_transform(rows)
    np.testing.assert_allclose(make(atoms).fit(X).transform(X), expected, atol=1e-9)


def test_array_libraries(make, put, rows, atoms):
    X = put(rows)
    encoder = make(atoms).fit(X)
    codes = encoder.transform(X)
    for result in (codes, encoder.dictionary_):
        assert type(result) is type(X)
        assert result.dtype == X.dtype
        assert device_of(result) == device_of(X)
    expected = make(atoms).fit_transform(rows)
    np.testing.assert_allclose(to_host(codes), expected, atol=1e-3)


def test_a_dictionary_of_any_library(make, put, rows, atoms):
    expected = make(atoms).fit_transform(rows)
    np.testing.assert_array_equal(make(put(atoms)).fit_transform(rows), expected)


def test_encode_in_any_library(make, put, rows, atoms):
    encoder, X = make(), put(rows.astype(np.float32))
    codes = encoder.encode(X, *encoder.prepare(put(atoms.astype(np.float32))))
    assert type(codes) is type(X)
    assert codes.dtype == X.dtype
    assert device_of(codes) == device_of(X)
    expected = make(atoms).fit_transform(rows)
    np.testing.assert_allclose(to_host(codes), expected, atol=5e-3)


def test_dask(make, rows, atoms):
    da = pytest.importorskip("dask.array")
    codes = make(atoms).fit_transform(da.from_array(rows, chunks=(171, 2)))
    expected = make(atoms).fit_transform(rows)
    assert isinstance(codes, da.Array)
    assert codes.shape == expected.shape
    np.testing.assert_allclose(codes.compute(), expected, atol=1e-9)


@pytest.mark.parametrize("threads", [1, 2])
def test_block_size_and_threads(make, atoms, threads):
    """Blocks of a hundred rows or so, and all at once."""
    X = np.random.default_rng(2).normal(size=(5000, 4))
    expected = make(atoms).fit_transform(X)
    with config_context(memory="64KiB", threads=threads):
        np.testing.assert_allclose(make(atoms).fit_transform(X), expected, atol=1e-9)


def test_data_on_another_device_is_refused(make, rows, atoms):
    xp = pytest.importorskip("array_api_strict")
    encoder = make(atoms).fit(xp.asarray(np.array(rows), device=xp.Device("device1")))
    with pytest.raises(ValueError, match=r"fitted on device .*device1.*move X there first"):
        encoder.transform(rows)
