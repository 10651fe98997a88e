"""What goes wrong for a new user gets one clear line: the value, the rule, and what to do."""

import inspect
import pkgutil
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.pipeline import make_pipeline

import clusterica
from clusterica.cluster import KMeans, SphericalKMeans
from clusterica.datasets import (
    load_digits_images,
    load_mnist,
    make_sparse_images,
    make_sparse_sources,
)
from clusterica.dictionaries import SparseRBM
from clusterica.display import ClusterSizesDisplay, FiltersDisplay, MixingDisplay, StagesDisplay
from clusterica.images import ImageFeatures
from clusterica.linear import LinearSVC, RidgeClassifier
from clusterica.preprocessing import Whitener


def estimators():
    """All public classes of estimators."""
    for package in pkgutil.iter_modules(clusterica.__path__):
        module = import_module(f"clusterica.{package.name}")
        for name in getattr(module, "__all__", ()):
            found = getattr(module, name)
            if inspect.isclass(found) and issubclass(found, BaseEstimator):
                yield found


@pytest.mark.parametrize("device", ["cuda", "cuda:3", "mps:7", "nonsense"])
def test_a_device_that_is_not_there(device):
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available() and device == "cuda":
        pytest.skip("there is one")
    with (
        clusterica.config_context(device=device),
        pytest.raises(ValueError, match=f"device='{device}' can't be used: ") as caught,
    ):
        KMeans(2).fit(np.eye(3))
    assert len(str(caught.value)) < 250
    assert "\n" not in str(caught.value)
    assert caught.value.__suppress_context__  # torch's own sixty lines are not printed either


def test_a_build_of_torch_for_cpus_is_named(monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.version, "cuda", None)
    with (
        clusterica.config_context(device="cuda:99"),
        pytest.raises(ValueError, match="build for CPUs; use device='cpu', or install PyTorch"),
    ):
        KMeans(2).fit(np.eye(3))


def test_masked_entries(rng):
    X = rng.normal(size=(20, 3))
    masked = np.ma.masked_array(X, mask=np.arange(60).reshape(20, 3) == 7)
    for call in (KMeans(2).fit, Whitener().fit, Whitener().fit(X).transform):
        with pytest.raises(ValueError, match=r"1 masked entries.*np\.ma\.filled"):
            call(masked)
    with pytest.raises(ValueError, match="masked entries"):
        KMeans(2).fit([X, masked])
    images = np.ma.masked_greater(rng.integers(0, 256, (5, 8, 8)), 200)
    with pytest.raises(ValueError, match="masked entries"):
        ImageFeatures(3, n_patches=20).fit(images)
    # The remedies work, and a mask that hides nothing is no error.
    KMeans(2).fit(np.ma.filled(masked, 0.0))
    KMeans(2).fit(np.ma.compress_rows(masked))
    KMeans(2).fit(np.ma.masked_array(X))


def test_a_missing_argument_names_no_base_class():
    for found in estimators():
        needed = [
            p.name
            for p in inspect.signature(found).parameters.values()
            if p.default is inspect.Parameter.empty
        ]
        if needed and not inspect.isabstract(found):
            with pytest.raises(TypeError, match=rf"^{found.__name__}\..*{needed[0]}"):
                found()
    X, y = np.random.default_rng().normal(size=(40, 2)), np.arange(40) % 2
    for call, name in (
        (KMeans(2).fit, "fit"),
        (KMeans(2).partial_fit, "partial_fit"),
        (SparseRBM(2).fit, "SparseRBM.fit"),
        (LinearSVC(C="auto").fit(X, y).predict_proba, "predict_proba"),
    ):
        with pytest.raises(TypeError, match=rf"^{name}\(\) missing 1 required .*: 'X'$"):
            call()


@pytest.mark.parametrize(
    "found",
    [found for found in estimators() if not inspect.isabstract(found)],
    ids=lambda found: found.__name__,
)
def test_methods_without_arguments_name_no_base_class(found):
    for name, method in inspect.getmembers_static(found, inspect.isfunction):
        # What scikit-learn's mixins are called, their users know. fit wants parameters first.
        ours = method.__module__.startswith("clusterica") and not name.startswith(("_", "fit"))
        required = [
            p for p in inspect.signature(method).parameters.values() if p.default is p.empty
        ]
        if ours and len(required) > 1 and "partial_fit" not in name:
            with pytest.raises(TypeError, match=rf"^({found.__name__}\.)?{name}\(\) missing"):
                method(found.__new__(found))


def test_classifiers_without_labels():
    for classifier in (LinearSVC(), RidgeClassifier()):
        with pytest.raises(
            ValueError, match=f"{type(classifier).__name__} requires y to be passed"
        ):
            classifier.fit(np.eye(3))


def test_missing_data_names_the_command_and_the_argument(tmp_path):
    with pytest.raises(
        FileNotFoundError, match=r"`clusterica download NAME`, or with download=True in a program"
    ):
        load_mnist(tmp_path)


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        (np.zeros((9, 9)), ValueError, r"give a single image as X\[None\], and reshape rows"),
        (
            np.zeros((32, 32, 3)),
            ValueError,
            r"is 32 grey images; give one colour image as X\[None\]",
        ),
        (["a.png", "b.png"], TypeError, r"names files \('a.png'\).*load_image_folder"),
        ([Path("a.png")], TypeError, r"names files.*PIL\.Image\.open"),
        ("folder", TypeError, "load_image_folder"),
        (load_digits_images(), TypeError, r"takes its images, X\.images"),
        (
            np.zeros((5, 4, 4)),
            ValueError,
            "too few for a patch of 6 x 6; lower patch_size, or enlarge",
        ),
    ],
    ids=["grey", "colour", "names", "paths", "folder", "data set", "small"],
)
def test_what_is_given_in_place_of_images(X, error, message):
    with pytest.raises(error, match=message):
        ImageFeatures(3, n_patches=20).fit(X)


def test_small_grey_images_are_not_taken_for_other_layouts():
    with pytest.raises(ValueError, match="too few") as caught:
        ImageFeatures(3, n_patches=20).fit(np.zeros((5, 4, 5)))
    assert "Channels" not in str(caught.value)
    assert "X[None]" not in str(caught.value)


def test_a_pipeline_given_to_a_display(rng):
    images = rng.integers(0, 256, (20, 10, 10), dtype=np.uint8)
    features = ImageFeatures(4, patch_size=3, n_patches=100, random_state=0)
    pipeline = make_pipeline(features, LinearSVC(C=1.0)).fit(images, np.arange(20) % 2)
    for show in (
        FiltersDisplay.from_estimator,
        ClusterSizesDisplay.from_estimator,
        MixingDisplay.from_estimator,
        lambda model: StagesDisplay.from_estimator(model, np.zeros((2, 9))),
    ):
        with pytest.raises(TypeError, match=r"pipeline\['imagefeatures'\].*'linearsvc'"):
            show(pipeline)


def test_data_sets_print_no_numbers():
    for data in (
        load_digits_images(),
        make_sparse_sources(2000, 4, random_state=0),
        make_sparse_images(50, random_state=0),
    ):
        text = repr(data)
        assert "\n" not in text
        assert len(text) < 250
        assert str(data[0].shape) in text
        assert text.startswith(type(data).__name__)
    images = [np.zeros((3, n)) for n in (4, 5, 6, 7)]
    assert "<4 images>" in repr(load_digits_images()._replace(images=images))


def test_clusters_of_rows_that_are_not_there():
    with pytest.raises(ValueError, match=r"n_samples=3 should be >= 8.*lower n_clusters"):
        SphericalKMeans().fit(np.eye(3))
