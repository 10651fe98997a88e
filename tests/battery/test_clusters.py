"""Every estimator on a cluster of two processes: the model of a local fit, up to rounding."""

import pickle

import numpy as np
import pytest

pytestmark = [
    pytest.mark.slow,
    # LocalCluster looks for a free port with a socket that it does not close.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def dask_array():
    distributed = pytest.importorskip("distributed")
    import dask.array as da

    settings = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
    with distributed.LocalCluster(**settings) as cluster, distributed.Client(cluster):
        yield lambda X: da.from_array(X, chunks=(70, *X.shape[1:]))


def test_models_are_those_of_a_local_fit(battery, dask_array):
    X = battery.shaped(np.random.default_rng(0).laplace(size=(300, 6)))
    local, remote = battery.fit(X), battery.fit(dask_array(X))
    remote = pickle.loads(pickle.dumps(remote))
    expected = battery.results(local, X)
    found = battery.results(remote, dask_array(X))
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        # Gaps between objectives are nothing but rounding.
        atol = max(1e-9, 1e-4 * np.abs(values).max(initial=0))
        np.testing.assert_allclose(
            found[name], values, rtol=1e-3, atol=atol, err_msg=f"{battery.name}: {name}"
        )
