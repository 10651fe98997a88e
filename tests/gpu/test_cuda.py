"""On a CUDA device: the work happens where the data is, and gives what the CPU gives."""

import numpy as np
import pytest

from clusterica import config_context
from clusterica.cluster import CosineKMeans, GainShapeKMeans, KMeans, SphericalKMeans
from clusterica.preprocessing import ContrastNormalizer, Whitener

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.gpu

X = np.random.default_rng(0).laplace(size=(20_000, 12)) @ np.random.default_rng(1).normal(
    size=(12, 12)
)
ESTIMATORS = [
    KMeans(7, max_iter=5, random_state=0),
    KMeans(7, max_iter=2, batch_size=1000, random_state=0),
    GainShapeKMeans(7, max_iter=5, random_state=0),
    SphericalKMeans(7, init="k-means++", max_iter=5, random_state=0),
    CosineKMeans(max_iter=5, random_state=0),
    CosineKMeans(orthogonal=True, max_iter=5, random_state=0),
    Whitener(),
    Whitener("pca", n_components=4),
    Whitener("cholesky"),
    ContrastNormalizer("auto"),
]


def fitted_arrays(estimator):
    return {
        name: value
        for name, value in vars(estimator).items()
        if name.endswith("_") and hasattr(value, "shape") and not isinstance(value, np.generic)
    }


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
def test_tensor_on_the_device_gives_what_the_cpu_gives(estimator):
    expected = fitted_arrays(estimator.fit(X))
    transformed = estimator.transform(X)
    estimator.fit(torch.asarray(X, device="cuda"))
    for name, value in fitted_arrays(estimator).items():
        if name != "objective_history_":
            assert value.device.type == "cuda"
            value = value.cpu().numpy()
        np.testing.assert_allclose(value, expected[name], atol=1e-6, err_msg=name)
    result = estimator.transform(torch.asarray(X, device="cuda"))
    assert result.device.type == "cuda"
    np.testing.assert_allclose(result.cpu().numpy(), transformed, atol=1e-6)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
def test_host_array_streamed_through_the_device(estimator):
    expected = estimator.fit(X).transform(X)
    with config_context(device="cuda", memory="1MiB"):
        result = estimator.fit(X).transform(X)
    assert isinstance(result, np.ndarray)
    np.testing.assert_allclose(result, expected, atol=1e-6)


@pytest.mark.parametrize(("fit_on", "use_on"), [("cpu", "cuda"), ("cuda", "cpu")])
def test_data_on_another_device_than_the_model_is_refused(fit_on, use_on):
    model = KMeans(3, random_state=0).fit(torch.asarray(X, device=fit_on))
    with pytest.raises(ValueError, match="fitted on device"):
        model.predict(torch.asarray(X, device=use_on))
