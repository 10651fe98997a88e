"""On a CUDA device: fused kernels against plain operations, the same bits in two runs, rows sent once.

The kernels alone are tested by tests/ops/test_gpu_assign.py and test_gpu_encode.py, which run on the device
too where there is one.
"""

import gc
from unittest.mock import patch

import numpy as np
import pytest
from sklearn.base import clone

from clusterica import config_context, describe_kernels
from clusterica.arrays import _replay, _stream
from clusterica.cluster import CosineKMeans, GainShapeKMeans, KMeans, SphericalKMeans
from clusterica.images import ImageFeatures
from clusterica.linear import LinearSVC

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

from clusterica.ops.gpu.assign import SCREENED_CENTERS  # noqa: E402  # after the check for Triton

pytestmark = pytest.mark.gpu

PRECISIONS = ["float32", "tf32", "bfloat16", "float16"]
ESTIMATORS = [
    KMeans(100, max_iter=3, random_state=0),
    GainShapeKMeans(100, max_iter=3, random_state=0),
    SphericalKMeans(100, max_iter=3, random_state=0),
    CosineKMeans(max_iter=3, random_state=0),
]
# So many centres that float32 begins with a screen.
SCREENED = [
    KMeans(1100, max_iter=3, random_state=0),
    GainShapeKMeans(1100, max_iter=3, random_state=0),
]


def name(estimator):
    return type(estimator).__name__ + ("-screened" if estimator in SCREENED else "")


every_estimator = pytest.mark.parametrize("estimator", ESTIMATORS, ids=name)
every_path = pytest.mark.parametrize("estimator", ESTIMATORS + SCREENED, ids=name)


def test_there_is_a_screen():
    assert all(model.n_clusters >= SCREENED_CENTERS for model in SCREENED)


def draw(n=50_000, d=108):
    generator = torch.Generator("cuda").manual_seed(0)
    return torch.randn(n, d, device="cuda", generator=generator)


def kernels(precision):
    return config_context(gpu_kernels="triton", precision=precision)


def test_what_is_used_is_said():
    X = draw(10, 3)
    assert describe_kernels(X) == "Triton kernels, products in float32"
    with config_context(gpu_kernels=None):
        assert describe_kernels(X).startswith("plain array operations")
    with kernels("float16"):
        assert describe_kernels(X) == "Triton kernels, products in float16"


@every_estimator
@pytest.mark.parametrize(("n", "d"), [(50_000, 108), (1_000_000, 5)])
def test_plain_operations_give_the_same_bits_twice(estimator, n, d):
    X = draw(n, d)
    with config_context(gpu_kernels=None):
        first, second = (estimator.fit(X).cluster_centers_.clone() for _ in range(2))
    assert torch.equal(first, second)


@every_path
@pytest.mark.parametrize("precision", PRECISIONS)
def test_objective_of_every_precision_and_bits_of_two_fits(estimator, precision):
    X = draw()
    with config_context(gpu_kernels=None):
        expected = estimator.fit(X).objective_history_[-1]
    with kernels(precision):
        first, second = (estimator.fit(X).cluster_centers_.clone() for _ in range(2))
        found = estimator.objective_history_[-1]
    assert torch.equal(first, second)
    assert abs(found / expected - 1) < 1e-3


@every_path
def test_labels_are_those_of_plain_operations(estimator):
    X = draw()
    estimator.fit(X)
    with kernels("float32"):
        labels = estimator.predict(X)
    with config_context(gpu_kernels=None):
        exact = estimator.predict(X)
    # Only ties within the rounding of float32 may differ.
    assert float((labels != exact).float().mean()) < 1e-4


@every_path
@pytest.mark.parametrize("precision", PRECISIONS)
def test_steps_that_are_replayed_give_the_same_bits(estimator, precision, monkeypatch):
    X, model = draw(), clone(estimator).set_params(max_iter=7, tol=0)
    record, recorded = _replay.Replayed._record, []
    monkeypatch.setattr(
        _replay.Replayed, "_record", lambda *args: (recorded.append(1), record(*args))
    )
    with kernels(precision):
        replayed = model.fit(X).cluster_centers_.clone()
        assert len(recorded) == 1
        history = model.objective_history_
        monkeypatch.setattr(_replay, "_PLAIN_CALLS", 100)
        assert torch.equal(model.fit(X).cluster_centers_, replayed)
    np.testing.assert_array_equal(model.objective_history_, history)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
@every_path
def test_steps_are_replayed_on_a_device_that_is_not_the_current_one(estimator, monkeypatch):
    X, model = draw().to("cuda:1"), clone(estimator).set_params(max_iter=7, tol=0)
    assert torch.cuda.current_device() == 0
    replayed = model.fit(X).cluster_centers_.clone()
    assert replayed.device == X.device
    monkeypatch.setattr(_replay, "_PLAIN_CALLS", 100)
    assert torch.equal(model.fit(X).cluster_centers_, replayed)


def test_recordings_of_earlier_fits_among_the_garbage():
    X = draw(2000, 10)
    before = gc.get_threshold()
    gc.set_threshold(5)  # garbage is collected all the time, also while a step is recorded
    try:
        for _ in range(5):
            KMeans(20, max_iter=5, tol=0, random_state=0).fit(X)
    finally:
        gc.set_threshold(*before)


@pytest.mark.filterwarnings("ignore:.* clusters are empty")  # TF32 mixes up near centres
@pytest.mark.parametrize("d", [1, 3, 50, 108, 192, 257, 1030])
@pytest.mark.parametrize("k", [1, 2, 100, 1600])
def test_shapes(d, k):
    X = draw(5000, d)
    model = KMeans(k, max_iter=1, random_state=0, init="rows", empty="keep")
    with config_context(gpu_kernels=None):
        expected = model.fit(X).inertia_
    # Products of TF32 are off by up to 2^-10 of |x| |c|, much where many centres lie on a line.
    errors = {"tf32": 2.0**-9 * float((X * X).sum()), "float32": 0.0}
    for precision, error in errors.items():
        with kernels(precision):
            model.fit(X)
        assert abs(model.inertia_ - expected) < 0.01 * expected + error + 1e-9


@pytest.mark.parametrize("encoder", ["soft-threshold", "triangle"])
@pytest.mark.parametrize("precision", ["float32", "tf32", "bfloat16", "float16"])
def test_features_of_images(encoder, precision):
    images = torch.rand(50, 32, 32, 3, device="cuda")
    model = ImageFeatures(200, n_patches=20_000, encoder=encoder, random_state=0).fit(images)
    with config_context(gpu_kernels=None):
        expected = model.transform(images)
    with kernels(precision):
        found, again = model.transform(images), model.transform(images)
    assert torch.equal(found, again)
    assert float((found - expected).norm() / expected.norm()) < 0.02


def test_host_rows_are_sent_once_and_give_what_tensors_give():
    X = draw(20_000, 50)
    y = (X[:, 0] > 0).cpu().numpy()
    host = X.cpu().numpy()
    expected = LinearSVC(C=0.1).fit(X, y).coef_.cpu().numpy()
    with (
        config_context(device="cuda"),
        patch.object(_stream, "streamed", wraps=_stream.streamed) as sent,
    ):
        found = LinearSVC(C=0.1).fit(host, y).coef_
    assert sent.call_count == 1
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-5)


def test_rows_that_do_not_fit_are_streamed_with_the_same_result(tmp_path):
    X = draw(300_000, 50).cpu().numpy()
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    with config_context(device="cuda", memory="16MiB"):
        found = KMeans(20, max_iter=3, random_state=0).fit(mapped)
    expected = KMeans(20, max_iter=3, random_state=0).fit(X)
    np.testing.assert_allclose(found.cluster_centers_, expected.cluster_centers_, atol=1e-3)
