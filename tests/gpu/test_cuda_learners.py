"""On a CUDA device: sources, pursuits, densities, encoders, classifiers and image features as on the CPU."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from clusterica import config_context
from clusterica.arrays import to_host
from clusterica.cluster import DensityClusterer
from clusterica.dictionaries import (
    KSVD,
    DiscriminativeKSVD,
    KernelSparseCoding,
    LabelConsistentKSVD,
    SparseAutoencoder,
    SparseCoding,
    SparseRBM,
)
from clusterica.encoders import ENCODER_NAMES, make_encoder
from clusterica.ica import ClusterICA, KernelICA, KurtosisPursuit
from clusterica.images import ImageFeatures
from clusterica.linear import KernelRidgeClassifier, LinearSVC, RidgeClassifier
from clusterica.preprocessing import KernelWhitener, Whitener
from clusterica.rica import RICA, DiscriminativeRICA

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.gpu

rng = np.random.default_rng(0)
X = rng.laplace(size=(20_000, 6)) @ rng.normal(size=(6, 6))
DIGITS = load_digits()


@pytest.mark.parametrize(
    "estimator",
    [
        ClusterICA(refine=None, random_state=0),
        ClusterICA(random_state=0),
        KurtosisPursuit(objective="max", n_init=5, random_state=0),
    ],
    ids=str,
)
def test_sources(estimator):
    expected = estimator.fit(X).components_
    tensor = torch.asarray(X, device="cuda")
    found = estimator.fit(tensor)
    assert found.components_.device.type == "cuda"
    assert found.transform(tensor).device.type == "cuda"
    np.testing.assert_allclose(to_host(found.components_), expected, atol=1e-3)


@pytest.mark.parametrize("unit_norm", ["tight", False])
@pytest.mark.parametrize(
    "estimator",
    [
        RICA(9, random_state=0),
        RICA(9, pooling="2d", random_state=0),
        DiscriminativeRICA(3, random_state=0),
    ],
    ids=str,
)
def test_reconstruction(estimator, unit_norm):
    """The same objective at the end; the way there may part, by rounding, at a fork."""
    y = np.arange(len(X)) % 3
    ends = []
    for rows in (X, torch.asarray(X, device="cuda")):
        estimator.set_params(unit_norm=unit_norm, tol=1e-8, max_iter=1000).fit(rows, y)
        ends.append(estimator.objective_history_)
    assert estimator.transform(rows).device.type == "cuda"
    np.testing.assert_allclose(ends[0][:5], ends[1][:5], rtol=1e-6)
    np.testing.assert_allclose(ends[0][-1], ends[1][-1], rtol=0.02)


@pytest.mark.filterwarnings("ignore:.*did not converge")
@pytest.mark.parametrize(
    "estimator",
    [
        SparseCoding(12, alpha=0.5, max_iter=5),
        SparseCoding(12, alpha=0.5, batch_size=1000, max_iter=2),
        KSVD(12, n_nonzero=2, max_iter=5),
        DiscriminativeKSVD(12, max_iter=5),
        LabelConsistentKSVD(4, max_iter=5),
        SparseAutoencoder(12, target=0.1, max_iter=5),
        SparseRBM(12, target=0.1, max_iter=2),
    ],
    ids=str,
)
def test_dictionaries(estimator):
    """Histories agree but where rounding makes a code choose another atom."""
    y, ends = np.arange(len(X)) % 3, []
    for rows in (X, torch.asarray(X, device="cuda")):
        estimator.set_params(random_state=0).fit(rows, y)
        history = getattr(estimator, "objective_history_", None)
        ends.append(estimator.error_history_ if history is None else history)
    assert estimator.components_.device.type == "cuda"
    assert estimator.transform(rows).device.type == "cuda"
    np.testing.assert_allclose(ends[1], ends[0], rtol=0.02)


@pytest.mark.parametrize("kernel", ["rbf", "polynomial"])
@pytest.mark.parametrize(
    "estimator",
    [
        KernelWhitener(3, n_landmarks=50, random_state=0),
        KernelICA(3, n_landmarks=50, tol=1e-7, random_state=0),
        KernelSparseCoding(10, tol=1e-3, max_iter=500, random_state=0),
    ],
    ids=str,
)
def test_kernel_learners(estimator, kernel):
    rows = X[:3000]
    expected = estimator.set_params(kernel=kernel).fit(rows).transform(rows)
    tensor = torch.asarray(rows, device="cuda")
    found = estimator.fit(tensor).transform(tensor)
    assert found.device.type == "cuda"
    np.testing.assert_allclose(to_host(found), expected, atol=0.02 * np.abs(expected).max())


def test_density():
    column = np.concatenate([rng.normal(-3, 1, (500, 1)), rng.normal(3, 1, (500, 1))])
    expected = DensityClusterer().fit(column)
    found = DensityClusterer().fit(torch.asarray(column, device="cuda"))
    np.testing.assert_array_equal(to_host(found.labels_), expected.labels_)


@pytest.mark.parametrize("name", ENCODER_NAMES)
def test_encoders(name):
    D = rng.normal(size=(16, 6)).astype(np.float32)
    rows = X[:500].astype(np.float32)
    encoder = make_encoder(name).set_params(dictionary=D)
    expected = encoder.fit(rows).transform(rows)
    tensor = torch.asarray(rows, device="cuda")
    found = to_host(encoder.fit(tensor).transform(tensor))
    np.testing.assert_allclose(found, expected, atol=2e-2 * np.abs(expected).max())


@pytest.mark.parametrize("classifier", [LinearSVC(C=10.0), RidgeClassifier(alpha=1.0)], ids=str)
@pytest.mark.parametrize("n", [1500, 50])
def test_linear_classifiers(classifier, n):
    rows, y = DIGITS.data[:n].astype(np.float32), DIGITS.target[:n]
    expected = classifier.fit(rows, y).decision_function(rows)
    tensor = torch.asarray(rows, device="cuda")
    objective = classifier.objective_
    found = classifier.fit(tensor, y)
    # Where classes can be told apart in many ways, decisions differ by more than the objective does.
    np.testing.assert_allclose(found.objective_, objective, rtol=1e-4)
    if n == 50:
        np.testing.assert_allclose(to_host(found.decision_function(tensor)), expected, atol=2e-2)


@pytest.mark.parametrize(
    ("estimator", "learned"),
    [
        (ClusterICA(random_state=0), "components_"),
        (RICA(9, max_iter=10, random_state=0), "components_"),
        (Whitener(), "whitening_"),
        (LinearSVC(C="auto", random_state=0), "coef_"),
        (KernelRidgeClassifier("rbf"), "dual_coef_"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else value,
)
@pytest.mark.filterwarnings("ignore:.*did not converge", "ignore:.*sources look Gaussian")
def test_two_fits_have_the_same_bits(estimator, learned):
    rows = torch.asarray(DIGITS.data, dtype=torch.float32, device="cuda")
    rows = rows + torch.rand(rows.shape, device="cuda")  # no constant pixels
    first, second = (getattr(estimator.fit(rows, DIGITS.target), learned) for _ in range(2))
    np.testing.assert_array_equal(to_host(first), to_host(second))


@pytest.mark.parametrize("encoder", ["soft-threshold", "triangle", "hard"])
@pytest.mark.parametrize("pooling", ["sum", "max"])
def test_image_features(encoder, pooling):
    images = DIGITS.images[:200]
    model = ImageFeatures(
        20, patch_size=4, n_patches=2000, encoder=encoder, pooling=pooling, random_state=0
    ).fit(images)
    expected = model.transform(images)
    with config_context(device="cuda"):
        found = model.transform(images)
    np.testing.assert_allclose(found, expected, atol=1e-3 * np.abs(expected).max())
    on_device = model.fit(torch.asarray(images, device="cuda"))
    assert on_device.transform(torch.asarray(images, device="cuda")).device.type == "cuda"
