"""Namespaces, devices, the way to the host and back, and random streams."""

import numpy as np
import pytest
import scipy.sparse as sp

from clusterica.arrays import (
    Place,
    as_generator,
    device_of,
    namespace_of,
    take,
    to_host,
    to_like,
    working_dtype,
)

VALUES = np.arange(6.0).reshape(2, 3)


def test_to_host_and_back(put):
    array = put(VALUES)
    host = to_host(array)
    assert isinstance(host, np.ndarray)
    np.testing.assert_array_equal(host, VALUES)
    back = to_like(host, array)
    assert type(back) is type(array)
    assert device_of(back) == device_of(array)
    np.testing.assert_array_equal(to_host(back), VALUES)


@pytest.mark.parametrize("axis", [0, 1])
def test_entries_along_an_axis(put, axis):
    chosen = np.array([1, 0, 1])
    found = take(put(VALUES), chosen, axis=axis)
    assert type(found) is type(put(VALUES))
    np.testing.assert_array_equal(to_host(found), VALUES.take(chosen, axis=axis))


@pytest.mark.parametrize("axis", [0, 1])
def test_entries_of_a_dask_array(axis):
    da = pytest.importorskip("dask.array")
    found = take(da.from_array(VALUES, chunks=(1, 3)), np.array([1, 0, 1]), axis=axis)
    assert isinstance(found, da.Array)
    np.testing.assert_array_equal(found.compute(), VALUES.take([1, 0, 1], axis=axis))


def test_an_array_to_be_filled(put):
    place = Place(put(VALUES))
    made = place.empty((2, 5), np.float64)
    assert made.shape == (2, 5)
    assert working_dtype(made.dtype) == np.float64
    # In host memory it is NumPy, which tensors of the CPU can share.
    assert type(made) is (np.ndarray if place.on_host else type(put(VALUES)))
    assert place.on_host or device_of(made) == device_of(put(VALUES))


def test_to_host_leaves_host_values_alone():
    for value in (VALUES, sp.csr_array(VALUES), np.float64(3), 2.5):
        assert to_host(value) is value


@pytest.mark.parametrize(
    "values",
    [
        np.array(3.0),
        np.empty((0, 3)),
        VALUES[::-1, ::-1],
        np.asfortranarray(VALUES),
        np.broadcast_to(VALUES[0], (4, 3)),
    ],
    ids=["scalar", "empty", "negative-strides", "f-order", "read-only"],
)
def test_every_host_array_can_be_moved(put, warn_always, values):
    moved = to_host(to_like(values, put(VALUES)))
    assert moved.shape == values.shape
    np.testing.assert_array_equal(moved, values)


def test_tensors_that_numpy_does_not_know():
    torch = pytest.importorskip("torch")
    grad = torch.ones(2, 3, requires_grad=True)
    assert isinstance(to_host(grad), np.ndarray)
    short = torch.asarray([1.0, 2.5, -3.0], dtype=torch.bfloat16)
    assert to_host(short).dtype == np.float32
    np.testing.assert_array_equal(to_host(short), [1, 2.5, -3])


def test_dask_is_computed():
    da = pytest.importorskip("dask.array")
    np.testing.assert_array_equal(to_host(da.from_array(VALUES, chunks=(1, 2))), VALUES)


def test_namespace_and_device_of_the_host():
    assert namespace_of(VALUES, np.float64(1)) is np
    assert namespace_of(sp.csr_array(VALUES)) is np
    assert namespace_of(sp.csr_array(VALUES), VALUES) is np
    assert device_of(VALUES) == device_of(sp.csr_array(VALUES)) == "cpu"


def test_namespace_of_two_libraries_is_an_error():
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError):
        namespace_of(VALUES, torch.ones(2))


@pytest.mark.parametrize(
    ("dtype", "working"),
    [
        ("float64", "float64"),
        ("float32", "float32"),
        ("float16", "float32"),
        ("longdouble", "float64"),
        ("bool", "float32"),
        ("int8", "float32"),
        ("uint8", "float32"),
        ("int16", "float32"),
        ("uint16", "float32"),
        ("int32", "float64"),
        ("uint32", "float64"),
        ("int64", "float64"),
        ("uint64", "float64"),
        (">f4", "float32"),
        (">i2", "float32"),
        (">f8", "float64"),
    ],
)
def test_working_dtype(dtype, working):
    assert working_dtype(np.dtype(dtype)) == np.dtype(working)


@pytest.mark.parametrize("name", ["float64", "float32", "int16", "int64", "bool"])
def test_working_dtype_of_other_libraries(name):
    torch, strict = pytest.importorskip("torch"), pytest.importorskip("array_api_strict")
    expected = working_dtype(np.dtype(name))
    assert working_dtype(getattr(torch, name)) == expected
    assert working_dtype(getattr(strict, name)) == expected


def test_same_seed_same_draws():
    assert as_generator(3).random() == np.random.default_rng(3).random()
    assert as_generator(3).random() != as_generator(4).random()
    legacy = [as_generator(np.random.RandomState(3)).random() for _ in range(2)]
    assert legacy[0] == legacy[1]


def test_a_generator_goes_on_and_a_legacy_stream_moves_on():
    generator = np.random.default_rng(0)
    assert as_generator(generator) is generator
    legacy = np.random.RandomState(3)
    assert as_generator(legacy).random() != as_generator(legacy).random()


def test_no_seed_gives_other_draws():
    assert as_generator(None).random() != as_generator(None).random()


@pytest.mark.parametrize("seed", ["text", 1.5, -1])
def test_what_is_no_seed(seed):
    with pytest.raises((ValueError, TypeError)):
        as_generator(seed)
