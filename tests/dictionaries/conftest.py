"""What tests of dictionaries share: rows made of a few known atoms, and blocks of rows."""

import numpy as np
import pytest


def unit(D):
    return D / np.linalg.norm(D, axis=1, keepdims=True)


def recovered(found, atoms, cosine=0.99):
    """Return the share of atoms that some found atom points along, in either direction."""
    return (np.abs(unit(atoms) @ unit(found).T).max(axis=1) > cosine).mean()


@pytest.fixture(scope="session")
def recovered_share():
    return recovered


@pytest.fixture(scope="session")
def make_few_of_many():
    """Return a function that makes rows of a few random unit atoms each, with noise."""

    def make(seed, n_rows=1500, n_atoms=50, n_features=20, n_nonzero=3, noise=0.1):
        rng = np.random.default_rng(seed)
        D = unit(rng.uniform(-1, 1, size=(n_atoms, n_features)))
        order = rng.permuted(np.tile(np.arange(n_atoms), (n_rows, 1)), axis=1)[:, :n_nonzero]
        S = np.zeros((n_rows, n_atoms))
        np.put_along_axis(S, order, rng.normal(size=(n_rows, n_nonzero)), axis=1)
        X, N = S @ D, rng.normal(size=(n_rows, n_features))
        return X + noise * N * np.linalg.norm(X) / np.linalg.norm(N), D

    return make


class Blocks:
    """An object that gives blocks of rows, anew each time it is walked."""

    def __init__(self, X):
        self.X = X

    def __iter__(self):
        return (self.X[i : i + 71] for i in range(0, len(self.X), 71))


@pytest.fixture(params=["float32", "blocks", "dask", "small memory", "one thread", "streamed"])
def as_kind(request):
    """Rows as another kind of input, and the configuration to walk them with."""
    da = pytest.importorskip("dask.array")
    kind = request.param
    settings = {"memory": "64KiB" if kind == "small memory" else "1GiB"}
    settings["threads"] = 1 if kind == "one thread" else 2
    if kind == "streamed":  # blocks are tensors, as they are on a GPU
        pytest.importorskip("torch")
        settings["device"] = "cpu"
    change = {
        "float32": lambda X: X.astype(np.float32),
        "blocks": Blocks,
        "dask": lambda X: da.from_array(X, chunks=(90, X.shape[1])),
    }.get(kind, lambda X: X)
    return change, settings
