"""One table of all estimators, and what they are fitted to; see test_edges.py."""

import copy
import inspect
import warnings
from importlib import import_module

import numpy as np
import pytest
from sklearn.base import BaseEstimator

from clusterica.arrays import to_host
from clusterica.cluster import (
    CosineKMeans,
    DensityClusterer,
    GainShapeKMeans,
    KMeans,
    SphericalKMeans,
    VonMisesFisherMixture,
)
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
from clusterica.linear import KernelRidgeClassifier, LinearSVC, RidgeClassifier
from clusterica.networks import Committee, DependencyGroups, FeatureNetwork, ImageClassifier, Layer
from clusterica.preprocessing import (
    ContrastNormalizer,
    GradientDescriptor,
    KernelWhitener,
    Whitener,
)
from clusterica.rica import RICA, DiscriminativeKernelRICA, DiscriminativeRICA, KernelRICA


def atoms(d):
    return np.random.default_rng(1).standard_normal((5, d))


def small_network():
    return FeatureNetwork([Layer(4, patch_size=3, n_patches=300)])


# Functions of the number of features: encoders need a dictionary that fits. Few iterations, since a result
# must be finite and well-shaped at every one of them.
OF_ROWS = {
    "ContrastNormalizer": lambda d: ContrastNormalizer(),
    "Whitener": lambda d: Whitener(),
    "Whitener, pca": lambda d: Whitener("pca", eps=0.0),
    "KernelWhitener": lambda d: KernelWhitener(3, random_state=0),
    "KMeans": lambda d: KMeans(3, random_state=0),
    "KMeans, batches": lambda d: KMeans(3, batch_size=10, max_iter=5, random_state=0),
    "GainShapeKMeans": lambda d: GainShapeKMeans(3, random_state=0),
    "SphericalKMeans": lambda d: SphericalKMeans(3, random_state=0),
    "CosineKMeans": lambda d: CosineKMeans(random_state=0),
    "VonMisesFisherMixture": lambda d: VonMisesFisherMixture(2, random_state=0),
    "HardEncoder": lambda d: HardEncoder(atoms(d)),
    "TriangleEncoder": lambda d: TriangleEncoder(atoms(d)),
    "SoftThresholdEncoder": lambda d: SoftThresholdEncoder(atoms(d)),
    "SigmoidEncoder": lambda d: SigmoidEncoder(atoms(d)),
    "SparseEncoder": lambda d: SparseEncoder(atoms(d)),
    "OMPEncoder": lambda d: OMPEncoder(atoms(d), n_nonzero=3),
    "LLCEncoder": lambda d: LLCEncoder(atoms(d), n_neighbors=3),
    "KernelSparseEncoder": lambda d: KernelSparseEncoder(atoms(d)),
    "ClusterICA": lambda d: ClusterICA(max_iter=20, random_state=0),
    "KernelICA": lambda d: KernelICA(2, max_iter=20, random_state=0),
    "KurtosisPursuit": lambda d: KurtosisPursuit(n_init=3, max_iter=20, random_state=0),
    "RICA": lambda d: RICA(4, max_iter=20, random_state=0),
    "KernelRICA": lambda d: KernelRICA(4, max_iter=20, random_state=0),
    "SparseCoding": lambda d: SparseCoding(4, max_iter=5, random_state=0),
    "KSVD": lambda d: KSVD(4, n_nonzero=2, max_iter=5, random_state=0),
    "KernelSparseCoding": lambda d: KernelSparseCoding(4, max_iter=5, random_state=0),
    "SparseAutoencoder": lambda d: SparseAutoencoder(4, max_iter=20, random_state=0),
    "SparseRBM": lambda d: SparseRBM(4, max_iter=2, random_state=0),
    "DependencyGroups": lambda d: DependencyGroups(2, n_groups=2, random_state=0),
}
OF_LABELED_ROWS = {
    "DiscriminativeRICA": lambda d: DiscriminativeRICA(2, max_iter=20, random_state=0),
    "DiscriminativeKernelRICA": lambda d: DiscriminativeKernelRICA(2, max_iter=20, random_state=0),
    "DiscriminativeKSVD": lambda d: DiscriminativeKSVD(4, n_nonzero=2, max_iter=5, random_state=0),
    "LabelConsistentKSVD": lambda d: LabelConsistentKSVD(
        2, n_nonzero=2, max_iter=5, random_state=0
    ),
    "LinearSVC": lambda d: LinearSVC(1.0, max_iter=20, random_state=0),
    "LinearSVC, auto": lambda d: LinearSVC(max_iter=20, random_state=0),
    "RidgeClassifier": lambda d: RidgeClassifier(1.0, random_state=0),
    "RidgeClassifier, auto": lambda d: RidgeClassifier(random_state=0),
    "KernelRidgeClassifier": lambda d: KernelRidgeClassifier(random_state=0),
}
OF_ONE_COLUMN = {
    "DensityClusterer": lambda d: DensityClusterer(),
    "DensityClusterer, scale space": lambda d: DensityClusterer(2, method="scale-space"),
}
OF_IMAGES = {
    "GradientDescriptor": lambda d: GradientDescriptor(n_cells=2),
    "ImageFeatures": lambda d: ImageFeatures(4, patch_size=3, n_patches=300, random_state=0),
    "Layer": lambda d: Layer(4, patch_size=3, n_patches=300, random_state=0),
    "FeatureNetwork": lambda d: small_network().set_params(random_state=0),
    "ImageClassifier": lambda d: ImageClassifier([small_network()], LinearSVC(1.0), random_state=0),
    "Committee": lambda d: Committee(
        [ImageClassifier([small_network()], LinearSVC(1.0))] * 2, random_state=0
    ),
}
ESTIMATORS = OF_ROWS | OF_LABELED_ROWS | OF_ONE_COLUMN | OF_IMAGES
# Documented to be NaN: rows that no classifier was tried on, and features without a group.
MAY_BE_NAN = ("validation_decisions_", "dependency_[0]")
PACKAGES = (
    "preprocessing",
    "cluster",
    "encoders",
    "ica",
    "rica",
    "dictionaries",
    "linear",
    "images",
    "networks",
)
METHODS = ("transform", "predict", "decision_function", "predict_proba", "score_samples")
ALL_METHODS = (*METHODS, "score", "bic", "partial_fit", "inverse_transform")


class Battery:
    """An estimator of the table, and how it is fitted to rows."""

    def __init__(self, name):
        self.name, self.make = name, ESTIMATORS[name]

    def shaped(self, X):
        """Return rows as what the estimator takes: themselves, one column, or images of 6 x 6 pixels."""
        if self.name in OF_ONE_COLUMN:
            return X[:, :1]
        if self.name not in OF_IMAGES:
            return X
        images = np.resize(np.ma.getdata(X), (len(X), 6, 6)).astype(X.dtype)
        if self.name == "GradientDescriptor":
            return images.reshape(len(X), 36)
        return images[..., None] if self.name == "Layer" else images

    def fit(self, X, **settings):
        """Fit to rows that are shaped already, with labels if it needs them."""
        y = np.arange(len(X)) % 2
        with warnings.catch_warnings():
            # Advice and "did not converge" are fine; a RuntimeWarning is NumPy's word for a wrong number.
            warnings.simplefilter("ignore", UserWarning)
            return self.make(X.shape[-1]).fit(X, y, **settings)

    def results(self, model, X):
        """Return by name what the model learned and what its methods give, as host arrays."""
        found = {k: v for k, v in numbers("", model) if not k.endswith(MAY_BE_NAN)}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            for method in METHODS:
                if hasattr(model, method):
                    found[method] = np.asarray(to_host(getattr(model, method)(X)))
        return found


def said_why(error):
    """Whether an error is ours, and not NumPy's or SciPy's word for NaN that came out of the computation."""
    text = str(error)
    return type(error) is ValueError and len(text) > 40 and "nan" not in text.lower()


def finite_or_reason(battery, X, make=None, **settings):
    """Fit, and return the results by name, all finite; or None, after an error that says why."""
    battery.make = make or battery.make
    found, error = None, None
    try:
        found = battery.results(battery.fit(X, **settings), X)
    except ValueError as raised:
        error = raised
    if found is None:
        assert said_why(error), repr(error)
        return None
    wrong = [path for path, values in found.items() if not np.isfinite(values).all()]
    assert not wrong, wrong
    for method in ("transform", "predict", "decision_function"):
        if method in found:
            assert len(found[method]) == len(X)
    return found


def methods_finite_or_reason(battery, model, X):
    """Call every method of a fitted model on other rows: finite numbers, or an error that says why."""
    y = np.arange(len(X)) % 2
    for method in ALL_METHODS:
        if not hasattr(model, method):
            continue
        own = copy.deepcopy(model) if method == "partial_fit" else model
        rows = X
        if method == "inverse_transform":
            rows = np.resize(X, (len(X), model._n_features_out)).astype(X.dtype)
        call = getattr(own, method)
        takes_y = method in ("score", "partial_fit") and "y" in inspect.signature(call).parameters
        found, error = None, None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                found = call(rows, y) if takes_y else call(rows)
        except ValueError as raised:
            error = raised
        assert error is None or said_why(error), f"{method}: {error!r}"
        if error is not None:
            continue
        values = [v for _, v in numbers("", own if method == "partial_fit" else found)]
        assert all(np.isfinite(v).all() for v in values), method


def numbers(path, value):
    """Yield the numbers of an estimator, however deep, with the path to each."""
    if isinstance(value, BaseEstimator):
        for name, part in vars(value).items():
            if name.endswith("_") and not name.startswith("_"):
                yield from numbers(f"{path}.{name}", part)
    elif isinstance(value, dict):
        for name, part in value.items():
            yield from numbers(f"{path}.{name}", part)
    elif isinstance(value, list | tuple):
        for i, part in enumerate(value):
            yield from numbers(f"{path}[{i}]", part)
    elif not isinstance(value, str | bytes | bool | None | np.random.Generator):
        array = np.asarray(to_host(value))
        if array.dtype.kind in "fiu":
            yield path, array


@pytest.fixture(params=ESTIMATORS)
def battery(request):
    """Every estimator of the table."""
    return Battery(request.param)


def _takes_weights(name):
    return "sample_weight" in inspect.signature(ESTIMATORS[name](6).fit).parameters


@pytest.fixture(params=filter(_takes_weights, ESTIMATORS))
def weighted(request):
    """Every estimator whose fit takes weights."""
    return Battery(request.param)


@pytest.fixture
def checked():
    """The check that a fit gives finite results, or an error that says why."""
    return finite_or_reason


@pytest.fixture
def checked_methods():
    """The check of all methods of a fitted model, on rows of another kind."""
    return methods_finite_or_reason


@pytest.fixture
def table():
    """The table itself."""
    return ESTIMATORS


@pytest.fixture
def every_class():
    """All public estimators of clusterica that can be instantiated."""
    modules = [import_module(f"clusterica.{name}") for name in PACKAGES]
    public = [getattr(module, name) for module in modules for name in module.__all__]
    return {c for c in public if hasattr(c, "fit") and not inspect.isabstract(c)}
