"""Model files: every estimator comes back as it was, and no file can run code."""

import inspect
import os
import pickle
import sys
from importlib import import_module

import numpy as np
import pytest
import safetensors.numpy
import sklearn.cluster
from numpy.testing import assert_array_equal
from sklearn.base import BaseEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import clusterica
from clusterica.arrays import to_host
from clusterica.cluster import (
    CosineKMeans,
    DensityClusterer,
    GainShapeKMeans,
    KMeans,
    SphericalKMeans,
    VonMisesFisherMixture,
)
from clusterica.contrasts import LogCosh, TorusPooling
from clusterica.dictionaries import (
    KSVD,
    DiscriminativeKSVD,
    KernelSparseCoding,
    LabelConsistentKSVD,
    SparseAutoencoder,
    SparseCoding,
    SparseRBM,
)
from clusterica.encoders import (
    HardEncoder,
    KernelSparseEncoder,
    LLCEncoder,
    OMPEncoder,
    SigmoidEncoder,
    SoftThresholdEncoder,
    SparseEncoder,
    TriangleEncoder,
)
from clusterica.ica import ClusterICA, KernelICA, KurtosisPursuit
from clusterica.images import ImageFeatures
from clusterica.io import ModelFileError
from clusterica.kernels import Gaussian, Normalized, Polynomial
from clusterica.linear import KernelRidgeClassifier, LinearSVC, RidgeClassifier
from clusterica.networks import (
    Committee,
    DependencyGroups,
    FeatureNetwork,
    ImageClassifier,
    Layer,
)
from clusterica.preprocessing import (
    ContrastNormalizer,
    GradientDescriptor,
    KernelWhitener,
    Whitener,
)
from clusterica.rica import RICA, DiscriminativeKernelRICA, DiscriminativeRICA, KernelRICA


@pytest.fixture
def X(rng):
    return rng.laplace(size=(300, 4))


ATOMS = np.eye(4)
MODELS = {
    "ContrastNormalizer": ContrastNormalizer(eps=0.1),
    "Whitener": Whitener("pca", eps="1%"),
    "KMeans": KMeans(3, random_state=0),
    "GainShapeKMeans": GainShapeKMeans(6, random_state=np.random.default_rng(0)),
    "SphericalKMeans": SphericalKMeans(6, random_state=0),
    "VonMisesFisherMixture": VonMisesFisherMixture(2, random_state=0),
    "CosineKMeans": CosineKMeans(random_state=np.random.RandomState(0)),
    "ClusterICA": ClusterICA(
        refine=LogCosh(), random_state=0, clusterer=sklearn.cluster.KMeans(n_init=1)
    ),
    "KernelRICA": KernelRICA(
        4, kernel=Normalized(Polynomial(2)), max_iter=20, tol=1.0, random_state=0
    ),
    "HardEncoder": HardEncoder(ATOMS),
    "TriangleEncoder": TriangleEncoder(ATOMS),
    "SoftThresholdEncoder": SoftThresholdEncoder(ATOMS, two_sided=False),
    "SigmoidEncoder": SigmoidEncoder(ATOMS),
    "SparseEncoder": SparseEncoder(ATOMS),
    "KernelSparseEncoder": KernelSparseEncoder(ATOMS, kernel="polynomial"),
    "KernelWhitener": KernelWhitener(3, kernel=Normalized(Polynomial(2)), random_state=0),
    "KernelICA": KernelICA(2, kernel=Gaussian(0.3), n_landmarks=30, random_state=0),
    "KernelSparseCoding": KernelSparseCoding(3, sparsity=0.5, tol=0.01, random_state=0),
    "SparseCoding": SparseCoding(6, alpha=0.2, tol=0.1, random_state=0),
    "KSVD": KSVD(6, n_nonzero=2, tol=0.1, random_state=0),
    "SparseAutoencoder": SparseAutoencoder(6, target=0.2, tol=0.1, random_state=0),
    "SparseRBM": SparseRBM(6, target=0.2, max_iter=2, random_state=0),
    "LLCEncoder": LLCEncoder(ATOMS, n_neighbors=2),
    "GradientDescriptor": GradientDescriptor(n_cells=2),
    "OMPEncoder": OMPEncoder(ATOMS, n_nonzero=2),
    "KurtosisPursuit": KurtosisPursuit(objective="max", random_state=0),
    "RICA": RICA(6, penalty=LogCosh(2.0), signs=[1] * 6, random_state=0, tol=1e-3),
    "RICA with pools": RICA(6, pooling=TorusPooling((6,)), random_state=0, tol=1e-3),
    "Pipeline": make_pipeline(StandardScaler(), Whitener(eps=0.0), CosineKMeans(random_state=0)),
}


def there_and_back(model, tmp_path):
    return clusterica.load(clusterica.save(model, tmp_path / "model.safetensors"))


def assert_equal(a, b):
    """Compare two values of estimators, however deep."""
    assert type(a) is type(b)
    if isinstance(a, BaseEstimator):
        assert_equal({k: v for k, v in vars(a).items() if k != "_callback_fit_ctx"}, vars(b))
    elif isinstance(a, dict):
        assert list(a) == list(b)
        for key in a:
            assert_equal(a[key], b[key])
    elif isinstance(a, list | tuple):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert_equal(x, y)
    elif isinstance(a, np.ndarray):
        assert a.dtype == b.dtype
        assert_array_equal(a, b)
    elif isinstance(a, np.random.Generator):
        assert a.bit_generator.state == b.bit_generator.state
    elif isinstance(a, np.random.RandomState):
        assert_equal(a.get_state(), b.get_state())
    else:
        assert a == b or (a != a and b != b)


@pytest.mark.filterwarnings("ignore:.*look Gaussian")
@pytest.mark.parametrize("name", MODELS)
def test_a_fitted_model_comes_back_as_it_was(name, X, tmp_path):
    model = MODELS[name].fit(X)
    again = there_and_back(model, tmp_path)
    assert_equal(model, again)
    method = "transform" if hasattr(model, "transform") else "predict"
    assert_array_equal(getattr(again, method)(X), getattr(model, method)(X))


def test_networks(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (40, 10, 10)).astype(np.uint8)
    second = Layer(
        4, patch_size=2, pool_size=1, n_patches=200, fields=DependencyGroups(5, n_groups=2)
    )
    model = FeatureNetwork(
        [Layer(6, patch_size=3, pool_size=2, n_patches=400), second], power=0.5, random_state=0
    ).fit(images)
    again = there_and_back(model, tmp_path)
    assert_equal(model, again)
    assert_array_equal(again.transform(images), model.transform(images))


@pytest.mark.parametrize("classifier", [LinearSVC(C=1.0), KernelRidgeClassifier("rbf")], ids=str)
def test_classifiers_of_images(classifier, tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (60, 8, 8)).astype(np.uint8)
    y = np.array(["north", "south", "west"])[np.arange(60) % 3]
    network = FeatureNetwork([Layer(6, patch_size=3, n_patches=400)])
    member = ImageClassifier([network], classifier, tune={"mirror": [False, True]})
    for model in (member, Committee([member, member], random_state=0)):
        model.fit(images, y)
        again = there_and_back(model, tmp_path)
        assert_array_equal(again.decision_function(images), model.decision_function(images))
        assert_array_equal(again.predict(images), model.predict(images))


def test_one_column(X, tmp_path):
    model = DensityClusterer().fit(X[:, :1])
    assert_array_equal(there_and_back(model, tmp_path).predict(X[:, :1]), model.labels_)


@pytest.mark.parametrize("constraint", ["both", "inhomogeneous"])
@pytest.mark.parametrize("learner", [DiscriminativeRICA, DiscriminativeKernelRICA])
def test_filters_of_classes(constraint, learner, X, tmp_path):
    y = np.array(["north", "south"])[(X[:, 0] > 0).astype(int)]
    model = learner(4, constraint=constraint, random_state=0, tol=1e-1).fit(X, y)
    again = there_and_back(model, tmp_path)
    assert_equal(model, again)
    assert_array_equal(again.transform(X), model.transform(X))


@pytest.mark.parametrize(
    "classifier",
    [
        LinearSVC(C=1.0),
        RidgeClassifier(alpha=1.0),
        DiscriminativeKSVD(5, tol=1.0, random_state=0),
        LabelConsistentKSVD(2, tol=1.0, random_state=0),
        KernelRidgeClassifier("linear", alpha=1.0),
        KernelRidgeClassifier("rbf", alpha=1.0, gamma=0.1),
    ],
    ids=str,
)
def test_classifiers(classifier, X, tmp_path):
    y = np.array(["north", "south"])[(X[:, 0] > 0).astype(int)]
    model = classifier.fit(X, y)
    again = there_and_back(model, tmp_path)
    assert_equal(model, again)
    assert_array_equal(again.predict(X), model.predict(X))


def test_image_pipelines(rng, tmp_path):
    images = rng.integers(0, 256, size=(20, 10, 10), dtype=np.uint8)
    features = ImageFeatures(5, patch_size=4, n_patches=300, random_state=0)
    model = make_pipeline(features, LinearSVC(C=1.0)).fit(images, np.arange(20) % 2)
    again = there_and_back(model, tmp_path)
    assert_array_equal(again[0].transform(images), model[0].transform(images))
    assert_array_equal(again.predict(images), model.predict(images))


def test_an_unfitted_model_comes_back(tmp_path):
    model = KMeans(7, init="rows", tol=0.0)
    assert there_and_back(model, tmp_path).get_params() == model.get_params()


def test_partial_fit_goes_on(X, tmp_path):
    model = KMeans(3, random_state=0).partial_fit(X[:150])
    again = there_and_back(model, tmp_path).partial_fit(X[150:])
    assert_array_equal(again.cluster_centers_, model.partial_fit(X[150:]).cluster_centers_)


def test_whitening_goes_on(X, tmp_path):
    model = Whitener().fit(X[:150])
    again = there_and_back(model, tmp_path).partial_fit(X[150:])
    assert_array_equal(again.whitening_, model.partial_fit(X[150:]).whitening_)


@pytest.mark.parametrize("begin", ["fit", "partial_fit"])
@pytest.mark.filterwarnings("ignore:.*did not converge")
def test_steps_of_atoms_go_on(begin, X, tmp_path):
    model = getattr(SparseCoding(5, alpha=0.2, max_iter=2, random_state=0), begin)(X[:150])
    again = there_and_back(model, tmp_path).partial_fit(X[150:])
    assert_array_equal(again.components_, model.partial_fit(X[150:]).components_)


@pytest.mark.parametrize("begin", ["fit", "partial_fit"])
def test_steps_of_filters_go_on(begin, X, tmp_path):
    model = getattr(RICA(random_state=0), begin)(X[:150])
    again = there_and_back(model, tmp_path).partial_fit(X[150:]).partial_fit(X[:150])
    expected = model.partial_fit(X[150:]).partial_fit(X[:150])
    assert_array_equal(again.components_, expected.components_)


def test_names_and_output_settings_stay(X, tmp_path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=["a", "b", "ü", "d"])
    model = Whitener().set_output(transform="pandas").fit(frame)
    again = there_and_back(model, tmp_path)
    assert list(again.feature_names_in_) == list(frame.columns)
    assert list(again.transform(frame).columns) == list(model.transform(frame).columns)


def test_tensors_stay_tensors(X, tmp_path):
    torch = pytest.importorskip("torch")
    tensor = torch.asarray(X)
    model = Whitener().fit(tensor)
    again = there_and_back(model, tmp_path)
    assert isinstance(again.whitening_, torch.Tensor)
    assert_array_equal(to_host(again.transform(tensor)), to_host(model.transform(tensor)))


def test_a_device_that_is_not_there(X, tmp_path):
    torch = pytest.importorskip("torch")
    path = clusterica.save(Whitener().fit(torch.asarray(X)), tmp_path / "m.safetensors")
    with pytest.raises(ValueError, match=r"load\(path, device='cpu'\)"):
        clusterica.load(path, device="cuda:99")


def test_tensors_without_torch(X, tmp_path, uninstalled):
    torch = pytest.importorskip("torch")
    path = clusterica.save(Whitener().fit(torch.asarray(X)), tmp_path / "m.safetensors")
    uninstalled("torch")
    with pytest.raises(ImportError, match=r"clusterica\[torch\]"):
        clusterica.load(path)


def test_numbers_that_json_lacks(tmp_path):
    model = KMeans(tol=float("inf"))
    model.extra_ = (np.float32(0.1), float("nan"), np.bool_(True), -0.0, np.empty((0, 3), np.int16))
    again = there_and_back(model, tmp_path)
    assert again.tol == float("inf")
    assert_equal(model.extra_, again.extra_)


@pytest.mark.parametrize(
    "texts",
    [
        np.array(["north", "ü", "", "\U0001f600x"]),
        np.array([["a", "b"], ["c", "d"]], dtype=">U9"),
        np.array(["ends in\0zeros", "b"])[::-1],
        np.array("one"),
        np.empty((0, 2), "<U3"),
        np.array(["x", None, 1.5], dtype=object),
        np.array(["any", "length"], dtype=np.dtypes.StringDType()),
    ],
    ids=repr,
)
def test_texts(texts, tmp_path):
    model = KMeans()
    model.extra_ = texts
    again = there_and_back(model, tmp_path).extra_
    assert_array_equal(again, texts)
    assert again.dtype == (
        texts.dtype if texts.dtype.kind == "T" else texts.dtype.newbyteorder("=")
    )
    assert again.shape == texts.shape


def test_the_order_in_memory_is_kept(rng, tmp_path):
    """Products of matrices may differ in their last bits if it is not."""
    model = KMeans()
    model.extra_ = (
        rng.random((5, 7)).T,
        rng.random((5, 7)),
        rng.random(3),
        rng.random((4, 5, 6)).T,
    )
    again = there_and_back(model, tmp_path)
    assert_equal(model.extra_, again.extra_)
    assert [a.strides for a in again.extra_] == [a.strides for a in model.extra_]


@pytest.mark.parametrize("value", [np.longdouble(1), np.ones(2, np.longdouble), 1j, b"bytes"])
def test_numbers_that_have_no_place(value, tmp_path):
    model = KMeans()
    model.extra_ = value
    with pytest.raises(TypeError, match=r"KMeans\.extra_ is a"):
        clusterica.save(model, tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


def test_every_estimator_is_tried():
    """Whoever adds an estimator is asked to add it here."""
    found = set()
    for package in (
        "preprocessing",
        "cluster",
        "ica",
        "rica",
        "dictionaries",
        "encoders",
        "linear",
        "images",
        "networks",
    ):
        module = import_module(f"clusterica.{package}")
        found |= {
            name
            for name in module.__all__
            if inspect.isclass(getattr(module, name))
            and issubclass(getattr(module, name), BaseEstimator)
            and not inspect.isabstract(getattr(module, name))
        }
    elsewhere = {
        "BaseEncoder",  # for subclasses
        "Committee",
        "DependencyGroups",
        "FeatureNetwork",
        "ImageClassifier",
        "Layer",
        "KernelRidgeClassifier",
        "DensityClusterer",
        "DiscriminativeKSVD",
        "DiscriminativeKernelRICA",
        "DiscriminativeRICA",
        "ImageFeatures",
        "LabelConsistentKSVD",
        "LinearSVC",
        "RidgeClassifier",
    }
    assert found - elsewhere <= set(MODELS)


def test_files_name_public_packages(X, tmp_path):
    """A model file must outlive the private module of a class."""
    path = clusterica.save(KMeans(2, random_state=0).fit(X), tmp_path / "m.safetensors")
    assert b"clusterica.cluster:KMeans" in path.read_bytes()


# --- What can't be held -----------------------------------------------------------------------------


def test_functions_are_refused_by_name(X, tmp_path):
    with pytest.raises(TypeError, match=r"KMeans\.init is a function"):
        clusterica.save(KMeans(2, init=lambda X, k, random_state: X[:k]), tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


def test_foreign_estimators_are_refused(tmp_path):
    class Foreign(BaseEstimator):
        pass

    with pytest.raises(TypeError, match="carries no code"):
        clusterica.save(make_pipeline(Foreign()), tmp_path / "m")
    with pytest.raises(TypeError, match="takes an estimator"):
        clusterica.save({"a": 1}, tmp_path / "m")


def test_a_failure_leaves_the_older_file(X, tmp_path, monkeypatch):
    path = clusterica.save(Whitener().fit(X), tmp_path / "m.safetensors")
    before = path.read_bytes()

    def broken(*args):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", broken)
    with pytest.raises(OSError, match="disk full"):
        clusterica.save(Whitener().fit(X + 1), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


# --- Files that are not right -----------------------------------------------------------------------


@pytest.fixture
def model_file(X, tmp_path):
    return clusterica.save(Whitener().fit(X), tmp_path / "m.safetensors")


@pytest.mark.parametrize("keep", [0, 4, 100, -1])
def test_a_file_that_was_cut_short(model_file, keep):
    model_file.write_bytes(model_file.read_bytes()[:keep])
    with pytest.raises(ModelFileError, match=r"m\.safetensors is not a model file.*truncated"):
        clusterica.load(model_file)


def test_a_file_of_something_else(tmp_path):
    (tmp_path / "m").write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(ValueError, match="is not a model file"):
        clusterica.load(tmp_path / "m")
    with pytest.raises(FileNotFoundError, match="no model file"):
        clusterica.load(tmp_path / "absent")
    with pytest.raises(IsADirectoryError, match="is a folder; give the name of a model file"):
        clusterica.load(tmp_path)
    safetensors.numpy.save_file({"a": np.ones(3)}, tmp_path / "other")
    with pytest.raises(
        ValueError, match=r"is a safetensors file, but it was not written by clusterica\.save"
    ):
        clusterica.load(tmp_path / "other")


def test_a_file_that_lacks_an_attribute(model_file, rewritten):
    rewritten(model_file, lambda d: d["model"].pop("fitted"))
    with pytest.raises(ModelFileError, match=r"'fitted' is missing.*copy it again"):
        clusterica.load(model_file)
    rewritten(model_file, lambda d: d.pop("model"))
    with pytest.raises(ModelFileError, match=r"'model' is missing.*copy it again"):
        clusterica.load(model_file)


def test_places_that_take_no_file(X, tmp_path):
    model = Whitener().fit(X)
    with pytest.raises(OSError, match="is a folder; give the name of a file"):
        clusterica.save(model, tmp_path)
    with pytest.raises(OSError, match=r"absent, which does not exist; give the name of a file"):
        clusterica.save(model, tmp_path / "absent" / "m")
    assert not list(tmp_path.iterdir())


def test_a_newer_format(model_file, rewritten):
    rewritten(model_file, lambda d: d.update(format=3))
    with pytest.raises(ModelFileError, match=r"format 3.*update clusterica"):
        clusterica.load(model_file)


@pytest.mark.parametrize(
    "name",
    [
        "os:system",
        "subprocess:Popen",
        "builtins:eval",
        "clusterica.io._model:load",
        "clusterica.io._model:os",
        "sklearn.base:clone",
        "sklearn.utils.estimator_checks:NotFittedError",
        "clusterica.nowhere:KMeans",
        "clusterica.__main__:main",
        "sklearn.conftest:pytest",
        "sklearn.tests.test_base:MyEstimator",
        "clusterica.arrays",
        "",
    ],
)
def test_no_file_can_name_other_code(model_file, rewritten, name):
    rewritten(model_file, lambda d: d["model"].update(estimator=name))
    modules = set(sys.modules)
    with pytest.raises(ModelFileError, match=r"m\.safetensors"):
        clusterica.load(model_file)
    assert not {"subprocess"} & (set(sys.modules) - modules)


def test_warns_of_other_versions_of_scikit_learn(X, rewritten, tmp_path):
    path = clusterica.save(make_pipeline(StandardScaler(), Whitener()).fit(X), tmp_path / "m")
    rewritten(path, lambda d: d.update(sklearn="1.0"))
    with pytest.warns(UserWarning, match="StandardScaler"):
        clusterica.load(path)


def test_a_summary_is_kept_beside_the_model(X, tmp_path):
    summary = {"data": "300 rows", "sizes": np.arange(3), "accuracy": {"score": 0.5}}
    model = Whitener().fit(X)
    path = clusterica.save(model, tmp_path / "a.safetensors", summary=summary)
    again = clusterica.io.load_summary(path)
    assert_array_equal(again.pop("sizes"), summary["sizes"])
    assert again == {"data": "300 rows", "accuracy": {"score": 0.5}}
    assert_array_equal(clusterica.load(path).whitening_, model.whitening_)
    assert clusterica.io.load_summary(clusterica.save(model, path)) is None
    assert clusterica.io.load_versions(path) == {
        "clusterica": clusterica.__version__,
        "sklearn": sklearn.__version__,
    }
