"""Every transformer takes and gives data frames, of pandas and of polars."""

import inspect
import pkgutil
from importlib import import_module

import numpy as np
import pytest
from sklearn.base import TransformerMixin

import clusterica
from clusterica.networks import Layer

ATOMS = np.eye(8, 4) + 0.1
# What a transformer needs beside a small number of components.
SETTINGS = {
    "ContrastNormalizer": {},
    "Whitener": {"method": "pca"},
    "CosineKMeans": {"n_axes": 2},
    "GainShapeKMeans": {"n_clusters": 3},
    "KMeans": {"n_clusters": 3},
    "SphericalKMeans": {"n_clusters": 3},
    "KernelICA": {"n_components": 2},
    "KernelRICA": {"n_components": 3, "max_iter": 3},
    "KernelSparseCoding": {"n_components": 3, "max_iter": 3},
    "LabelConsistentKSVD": {"n_components_per_class": 2},
    "GradientDescriptor": {"n_cells": 2},  # four columns are a patch of 2 x 2
    "DiscriminativeRICA": {"n_components_per_class": 2, "max_iter": 3},
    "DiscriminativeKernelRICA": {"n_components_per_class": 2, "max_iter": 3},
}
IMAGES = ("ImageFeatures", "FeatureNetwork")


def transformers():
    for package in pkgutil.iter_modules(clusterica.__path__):
        module = import_module(f"clusterica.{package.name}")
        for name in getattr(module, "__all__", ()):
            found = getattr(module, name)
            if (
                inspect.isclass(found)
                and issubclass(found, TransformerMixin)
                and not inspect.isabstract(found)
                and name != "BaseEncoder"
            ):
                yield name, found


CLASSES = dict(transformers())


def make(name):
    if name.endswith("Encoder"):
        return CLASSES[name](ATOMS)
    settings = SETTINGS.get(name, {"n_components": 3})
    model = CLASSES[name](**settings)
    return model.set_params(random_state=0) if "random_state" in model.get_params() else model


@pytest.fixture(params=["pandas", "polars"])
def library(request):
    return pytest.importorskip(request.param)


@pytest.mark.filterwarnings("ignore")  # a few steps on a few rows do not converge
@pytest.mark.parametrize("name", [name for name in CLASSES if name not in IMAGES])
def test_tables(name, library):
    X = np.random.default_rng(0).laplace(size=(80, 4))
    y = np.arange(80) % 2
    frame = library.DataFrame({column: X[:, i] for i, column in enumerate("abcd")})
    expected = make(name).fit(X, y).transform(X)
    model = make(name).set_output(transform=library.__name__).fit(frame, y)
    table = model.transform(frame)
    assert isinstance(table, library.DataFrame)
    assert list(table.columns) == list(model.get_feature_names_out())
    np.testing.assert_allclose(table.to_numpy(), expected, atol=1e-10)
    assert list(model.feature_names_in_) == list("abcd")
    if hasattr(model, "inverse_transform"):
        back = model.inverse_transform(table)
        np.testing.assert_allclose(
            np.asarray(back), make(name).fit(X, y).inverse_transform(expected), atol=1e-8
        )
    with pytest.raises(ValueError, match="feature names"):
        model.transform(frame[["b", "a", "c", "d"]])


@pytest.mark.parametrize("name", IMAGES)
def test_features_of_images(name, library):
    images = np.random.default_rng(0).integers(0, 256, (20, 10, 10), dtype=np.uint8)
    if name == "ImageFeatures":
        model = CLASSES[name](4, patch_size=3, n_patches=200, random_state=0)
    else:
        model = CLASSES[name]([Layer(4, patch_size=3, n_patches=200)], random_state=0)
    expected = model.fit(images).transform(images)
    table = model.set_output(transform=library.__name__).transform(images)
    assert isinstance(table, library.DataFrame)
    assert list(table.columns) == list(model.get_feature_names_out())
    np.testing.assert_allclose(table.to_numpy(), expected, atol=1e-6)
