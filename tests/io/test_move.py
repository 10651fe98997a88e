"""A model that was moved is as one that was fitted there."""

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

import clusterica
from clusterica.cluster import CosineKMeans, KMeans
from clusterica.dictionaries import SparseAutoencoder
from clusterica.ica import ClusterICA
from clusterica.linear import LinearSVC, RidgeClassifier
from clusterica.networks import DependencyGroups
from clusterica.preprocessing import ContrastNormalizer, KernelWhitener, Whitener
from clusterica.rica import RICA

torch = pytest.importorskip("torch")

MODELS = [
    KMeans(3, random_state=0),
    CosineKMeans(3, random_state=0),
    Whitener(),
    KernelWhitener(n_landmarks=20, random_state=0),
    ContrastNormalizer(),
    ClusterICA(random_state=0),
    RICA(4, max_iter=5, random_state=0),
    LinearSVC(C=1.0),
    RidgeClassifier(),
    SparseAutoencoder(4, max_iter=5, random_state=0),
    DependencyGroups(3, random_state=0),
    make_pipeline(ContrastNormalizer(), Whitener(), KMeans(3, random_state=0)),
]


def kinds(value):
    """Return which arrays of a model, and of the models in it, are NumPy arrays and which are tensors."""
    if hasattr(value, "get_params"):
        held = {name: kinds(v) for name, v in vars(value).items()}
        return {name: kind for name, kind in held.items() if kind}
    if isinstance(value, list | tuple):
        return [kinds(item) for item in value]
    return type(value).__name__ if isinstance(value, np.ndarray | torch.Tensor) else None


@pytest.fixture
def data(rng):
    X = rng.laplace(size=(600, 5))
    return X, X[:, 0] > 0


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_a_moved_model_is_as_one_fitted_there(model, data):
    X, y = data
    on_tensors = kinds(model.fit(torch.asarray(X), y))
    on_arrays = kinds(model.fit(X, y))
    moved = clusterica.to_device(model, "cpu")
    assert kinds(moved) == on_tensors
    assert kinds(model) == on_arrays
    back = clusterica.to_device(moved, "numpy")
    assert kinds(back) == on_arrays
    run = next((name for name in ("transform", "predict") if hasattr(model, name)), None)
    if run is None:
        return
    right = getattr(model, run)(X)
    found = getattr(moved, run)(torch.asarray(X))
    assert isinstance(found, torch.Tensor)
    np.testing.assert_allclose(found.numpy(), right, atol=1e-12)
    np.testing.assert_allclose(getattr(back, run)(X), right, atol=1e-12)


def test_a_copy_shares_nothing(data):
    model = KMeans(2, random_state=0).fit(data[0])
    right = model.cluster_centers_.copy()
    clusterica.to_device(model, "cpu").cluster_centers_ += 1
    np.testing.assert_array_equal(model.cluster_centers_, right)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_a_model_is_loaded_to_a_device(model, data, tmp_path):
    X, y = data
    path = clusterica.save(model.fit(X, y), tmp_path / "m.safetensors")
    # A device without values, which torch has everywhere.
    loaded, moved = clusterica.load(path, device="meta"), clusterica.to_device(model, "meta")
    assert kinds(loaded) == kinds(moved) == kinds(clusterica.to_device(model, "cpu"))
    clusterica.save(clusterica.to_device(model, "cpu"), path)
    assert kinds(clusterica.load(path, device="numpy")) == kinds(model)


def test_models_of_arrays_stay_so_on_the_cpu(data, tmp_path):
    X = data[0]
    path = clusterica.save(Whitener().fit(X), tmp_path / "m.safetensors")
    loaded = clusterica.load(path, device="cpu")
    assert isinstance(loaded.mean_, np.ndarray)
    assert isinstance(loaded.transform(torch.asarray(X)), torch.Tensor)


def test_bad_input(data):
    with pytest.raises(TypeError, match="takes an estimator, and got a ndarray"):
        clusterica.to_device(data[0], "cpu")
    with pytest.raises(ValueError, match="device='gpu' can't be used"):
        clusterica.to_device(KMeans(), "gpu")
