"""Kernel RICA on a CUDA device: the same basis as on the CPU, and large arrays that stay there."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from clusterica import config_context
from clusterica.arrays import to_host
from clusterica.kernels import KERNEL_NAMES
from clusterica.rica import DiscriminativeKernelRICA, KernelRICA

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore:.*max_iter", "ignore:.*are dead")]

X, Y = load_digits(return_X_y=True)
# No pixel is equal to that of a centre, where the histogram kernel has a kink.
X = X + np.random.default_rng(0).uniform(size=X.shape)
SETTINGS = {"gamma": 4.0, "normalize": True, "max_iter": 6, "random_state": 0}
LEARNERS = [
    KernelRICA(20, **SETTINGS),
    *(
        KernelRICA(20, kernel=kernel, normalize=True, max_iter=6, random_state=0)
        for kernel in KERNEL_NAMES
        if kernel != "rbf"
    ),
    KernelRICA(20, optimizer="lbfgs", pooling=None, **SETTINGS),
    DiscriminativeKernelRICA(2, **SETTINGS),
]


@pytest.mark.parametrize("learner", LEARNERS, ids=str)
def test_the_basis_is_that_of_the_cpu(learner):
    right = learner.fit(X, Y).transform(X)
    history = learner.objective_history_
    tensor = torch.asarray(X, device="cuda")
    S = learner.fit(tensor, Y).transform(tensor)
    assert S.device.type == learner.components_.device.type == "cuda"
    np.testing.assert_allclose(learner.objective_history_, history, rtol=1e-6)
    np.testing.assert_allclose(to_host(S), right, atol=1e-4)


def test_rows_on_the_host_sent_through_the_device():
    right = KernelRICA(20, **SETTINGS).fit(X)
    with config_context(device="cuda"):
        streamed = KernelRICA(20, **SETTINGS).fit(X)
    assert isinstance(streamed.components_, np.ndarray)
    np.testing.assert_allclose(streamed.components_, right.components_, atol=1e-4)
