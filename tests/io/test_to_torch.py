"""A torch module of image features equals their transform, and so does the ONNX file made from it."""

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from clusterica.images import ImageFeatures
from clusterica.io import to_torch
from clusterica.linear import LinearSVC, RidgeClassifier

torch = pytest.importorskip("torch")


def images(n=30, shape=(13, 12), *, channels=None):
    """Return smooth random images in 0..255, with one flat corner: a patch without contrast."""
    rng = np.random.default_rng()
    size = (n, *shape) if channels is None else (n, *shape, channels)
    X = rng.uniform(0, 255, size)
    X = (X + np.roll(X, 1, 1) + np.roll(X, 1, 2)) / 3
    X[:, :6, :6] = 250
    return X.astype(np.float32)


def assert_equal_up_to_rounding(found, expected):
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize("pooling", ["sum", "mean", "max", "l2", "gaussian"])
@pytest.mark.parametrize("encoder", ["soft-threshold", "sigmoid", "triangle", "hard"])
def test_equals_transform(encoder, pooling):
    X = images()
    features = ImageFeatures(
        20, patch_size=4, n_patches=2000, encoder=encoder, pooling=pooling, random_state=0
    ).fit(X)
    expected, found = features.transform(X), to_torch(features)(torch.asarray(X)).numpy()
    if encoder == "hard":
        # A patch that is as near to two atoms may go to either; it changes one count of each.
        assert np.mean(np.abs(found - expected) > 1e-4 * expected.max()) < 0.01
    else:
        assert_equal_up_to_rounding(found, expected)


@pytest.mark.parametrize(
    "options",
    [
        {"normalizer": None},
        {"whitener": None},
        {"whitener": None, "encoder": "triangle"},
        {"stride": 2},
        {"grid": [(1, 1), (3, 2)]},
        {"encoder": "positive"},
    ],
    ids=str,
)
@pytest.mark.parametrize("channels", [None, 3])
def test_other_settings(options, channels):
    from clusterica.encoders import SoftThresholdEncoder

    if options.get("encoder") == "positive":
        options = {"encoder": SoftThresholdEncoder(two_sided=False)}
    X = images(channels=channels)
    features = ImageFeatures(15, patch_size=4, n_patches=2000, random_state=0, **options).fit(X)
    found = to_torch(features)(torch.asarray(X)).numpy()
    assert_equal_up_to_rounding(found, features.transform(X))


@pytest.mark.parametrize("classifier", [LinearSVC(), RidgeClassifier(), LogisticRegression(C=1e-4)])
@pytest.mark.parametrize("names", [["bird", "cat", "dog"], ["bird", "cat"]])
def test_a_classifier_gives_its_decisions(classifier, names):
    X = images()
    y = np.resize(names, len(X))
    model = make_pipeline(
        ImageFeatures(15, patch_size=4, n_patches=2000, random_state=0), classifier
    ).fit(X, y)
    module = to_torch(model)
    found = module(torch.asarray(X)).numpy()
    assert_equal_up_to_rounding(found, model.decision_function(X).astype(np.float32))
    assert module.classes == names


def test_images_of_bytes_and_of_another_size():
    X = images().astype(np.uint8)
    features = ImageFeatures(15, patch_size=4, n_patches=2000, random_state=0).fit(X)
    other = images(5, (17, 19)).astype(np.uint8)
    found = to_torch(features)(torch.asarray(other)).numpy()
    assert_equal_up_to_rounding(found, features.transform(other))


def test_state_goes_with_the_module():
    features = ImageFeatures(5, patch_size=4, n_patches=500, random_state=0).fit(images())
    module = to_torch(features)
    assert set(module.state_dict()) == {"filters", "bias", "centring"}
    assert not list(module.parameters())
    assert to_torch(features).load_state_dict(module.state_dict()).missing_keys == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"encoder": "omp"}, "encoder=OMPEncoder"),
        ({"whitener": PCA(10)}, "whitener=PCA"),
        ({"regions": (2, 1)}, r"regions=\(2, 1\)"),
        ({"encoder": "transform"}, "encoder=LearnerEncoder"),
    ],
)
def test_steps_without_a_form_are_named(options, message):
    features = ImageFeatures(5, patch_size=4, n_patches=500, random_state=0, **options)
    with pytest.raises(TypeError, match=message):
        to_torch(features.fit(images()))


def test_other_models_are_named():
    X = images()
    features = ImageFeatures(5, patch_size=4, n_patches=500, random_state=0)
    with pytest.raises(NotFittedError):
        to_torch(features)
    with pytest.raises(TypeError, match="StandardScaler; to_torch takes ImageFeatures"):
        to_torch(StandardScaler())
    with pytest.raises(TypeError, match="ImageFeatures, StandardScaler, LinearSVC"):
        to_torch(make_pipeline(features, StandardScaler(), LinearSVC()))
    y = np.resize([0, 1], len(X))
    with pytest.raises(TypeError, match="KNeighborsClassifier has no coef_"):
        to_torch(make_pipeline(features, KNeighborsClassifier()).fit(X, y))


@pytest.mark.filterwarnings("default")  # the exporter's own
def test_onnx_file(tmp_path):
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    X = images(channels=3)
    model = make_pipeline(
        ImageFeatures(15, patch_size=4, n_patches=2000, random_state=0), LinearSVC()
    ).fit(X, np.resize(["bird", "cat", "dog"], len(X)))
    path = tmp_path / "model.onnx"
    batch = {"images": {0: torch.export.Dim("n")}}
    torch.onnx.export(
        to_torch(model),
        (torch.asarray(X[:2]),),
        path,
        input_names=["images"],
        dynamic_shapes=batch,
        verbose=False,
    )
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"images": X})
    assert_equal_up_to_rounding(found, model.decision_function(X).astype(np.float32))
