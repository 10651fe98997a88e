"""Places where rows can live, each made from the same host array."""

import sys

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from clusterica.arrays import check_rows


class Estimator(BaseEstimator):
    """Receives n_features_in_."""


class Blocks:
    """Blocks of rows that can be walked again and again."""

    def __init__(self, *parts):
        self.parts = parts

    def __iter__(self):
        return iter(self.parts)


def _uneven(X):
    """Cut X into blocks of different sizes, one of them without rows."""
    cuts = [len(X) // 7, len(X) // 7, len(X) // 2]
    return np.split(X, cuts)


def _read_only(X):
    X = X.copy()
    X.flags.writeable = False
    return X


def _memmap(X, folder):
    path = folder / "X.dat"
    np.memmap(path, X.dtype, "w+", shape=X.shape)[:] = X
    return np.memmap(path, X.dtype, "r", shape=X.shape)


def _csr(X, index_dtype):
    S = sp.csr_array(X)
    S.indices, S.indptr = S.indices.astype(index_dtype), S.indptr.astype(index_dtype)
    return S


def _torch(X):
    return pytest.importorskip("torch").asarray(X.copy())


def _strict(X, device):
    xp = pytest.importorskip("array_api_strict")
    return xp.asarray(X.copy(), device=xp.Device(device))


def _dask(X):
    return pytest.importorskip("dask.array").from_array(X, chunks=(max(1, len(X) // 4), 2))


SOURCES = {
    "c-order": lambda X, _: np.ascontiguousarray(X),
    "f-order": lambda X, _: np.asfortranarray(X),
    "negative-strides": lambda X, _: np.ascontiguousarray(X[::-1, ::-1])[::-1, ::-1],
    "strided": lambda X, _: np.repeat(X, 2, axis=1)[:, ::2],
    "read-only": lambda X, _: _read_only(X),
    "memmap": _memmap,
    "csr-int32": lambda X, _: _csr(X, np.int32),
    "csr-int64": lambda X, _: _csr(X, np.int64),
    "csr-matrix": lambda X, _: sp.csr_matrix(X),
    "torch": lambda X, _: _torch(X),
    "torch-transposed": lambda X, _: _torch(np.ascontiguousarray(X.T)).T,
    "torch-grad": lambda X, _: _torch(X).requires_grad_(),
    "strict": lambda X, _: _strict(X, "CPU_DEVICE"),
    "strict-device1": lambda X, _: _strict(X, "device1"),
    "dask": lambda X, _: _dask(X),
    "list": lambda X, _: _uneven(X),
    "re-iterable": lambda X, _: Blocks(*_uneven(X)),
    "blocks-of-lists": lambda X, _: Blocks(X[: len(X) // 2].tolist(), X[len(X) // 2 :].tolist()),
    "blocks-of-csr": lambda X, _: [sp.csr_array(part) for part in _uneven(X)],
    "blocks-of-torch": lambda X, _: [_torch(part) for part in _uneven(X)],
}


@pytest.fixture
def blocks():
    return Blocks


@pytest.fixture
def warn_always():
    """Have torch repeat the warnings that it gives once in a process, where there is torch."""
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    yield
    torch.set_warn_always(before)


@pytest.fixture
def estimator():
    return Estimator()


@pytest.fixture
def place(tmp_path):
    """A function that brings a host array to a place by name."""
    return lambda X, name: SOURCES[name](X, tmp_path)


@pytest.fixture(params=SOURCES)
def where(request):
    """The name of every place."""
    return request.param


@pytest.fixture
def table():
    """Small whole numbers with the row's number in front: exact in every dtype, sums too."""
    rng = np.random.default_rng(0)
    X = rng.integers(-4, 5, size=(1500, 5)).astype(np.float64)
    X[:, 0] = np.arange(len(X)) % 64
    return X


@pytest.fixture
def rows(table, where, place, estimator):
    """The table in every place, validated."""
    return check_rows(estimator, place(table, where), reset=True, accept_sparse=True)
