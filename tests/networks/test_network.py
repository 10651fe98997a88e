"""Layers and networks of them."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from clusterica import config_context
from clusterica.images import ImageFeatures
from clusterica.networks import DependencyGroups, FeatureNetwork, Layer

SMALL = {"n_patches": 2000, "patch_size": 3, "pool_size": 2}


@pytest.fixture
def images(rng):
    return rng.integers(0, 256, size=(60, 12, 12, 3)).astype(np.uint8)


def network(**settings):
    layers = [
        Layer(8, **SMALL),
        Layer(5, n_patches=1000, patch_size=2, pool_size=1, fields=DependencyGroups(6, n_groups=3)),
    ]
    return FeatureNetwork(layers, random_state=0, **settings)


@pytest.mark.parametrize("grid", [(2, 2), [(1, 1), (3, 3)]], ids=str)
def test_one_layer_is_image_features(images, grid):
    """The same steps, the same seed, the same features: the last layer pools its codes over the grid."""
    layer = Layer(8, n_patches=2000, patch_size=3)
    found = FeatureNetwork([layer], grid=grid, random_state=0).fit(images)
    seed = found.layers_[0].features_[0].random_state
    other = ImageFeatures(8, n_patches=2000, patch_size=3, grid=grid, random_state=seed).fit(images)
    np.testing.assert_array_equal(found.transform(images), other.transform(images))
    assert found.n_features_out_ == other.n_features_out_


@pytest.mark.parametrize("grid", [(0, 2), (2,), [(1, 1), (2, 2.5)], ()])
def test_wrong_grids_are_refused(images, grid):
    with pytest.raises(ValueError, match="must be \\(rows, columns\\)"):
        network(grid=grid).fit(images)


def test_maps_are_pooled_codes_of_patches(images):
    layer = Layer(8, random_state=0, **SMALL).fit(images)
    maps = layer.transform(images)
    assert maps.shape == (60, *layer.maps_shape_) == (60, 5, 5, 16)
    (features,) = layer.features_
    patches = [images[0, i : i + 3, j : j + 3].reshape(1, -1) for i in (2, 3) for j in (4, 5)]
    codes = features.stages(np.concatenate(patches).astype(np.float32))["codes"]
    np.testing.assert_allclose(maps[0, 1, 2], codes.sum(axis=0), rtol=1e-4, atol=1e-4)


def test_second_layer_sees_its_groups_only(images):
    model = network(output="last").fit(images)
    first, second = model.layers_
    maps = first.transform(images)
    before = second.transform(maps)
    group = second.groups_[0]
    others = np.setdiff1d(np.arange(maps.shape[3]), group)
    maps[..., others] += 1
    after = second.transform(maps)
    n = sum(second.features_[0].n_codes_)
    np.testing.assert_allclose(after[..., :n], before[..., :n])
    assert not np.allclose(after[..., n:], before[..., n:])


def test_all_layers_are_joined_or_the_last_is_given(images):
    both, last = network().fit(images), network(output="last").fit(images)
    Z, z = both.transform(images), last.transform(images)
    assert Z.shape == (60, both.n_features_out_)
    assert z.shape == (60, last.n_features_out_)
    np.testing.assert_array_equal(Z[:, -z.shape[1] :], z)
    assert len(both.get_feature_names_out()) == Z.shape[1]


@pytest.mark.parametrize("memory", ["64KiB", "1MiB"])
def test_memory_budget_changes_nothing(images, memory):
    """With little memory the maps to learn from are in a file, and images come in many blocks."""
    expected = network().fit_transform(images)
    with config_context(memory=memory):
        found = network().fit_transform(images)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 * expected.max())


def test_mirror_images_have_the_same_features(images):
    model = network(mirror=True).fit(images)
    Z = model.transform(images)
    np.testing.assert_allclose(model.transform(images[:, :, ::-1]), Z, rtol=1e-4, atol=1e-4)
    plain = network().fit(images)
    both = plain.transform(images) + plain.transform(np.ascontiguousarray(images[:, :, ::-1]))
    np.testing.assert_allclose(Z, both / 2, rtol=1e-4, atol=1e-4)


def test_power_is_taken_of_the_features(images):
    Z = network().fit_transform(images)
    np.testing.assert_allclose(network(power=0.5).fit_transform(images), np.sqrt(Z), rtol=1e-5)
    signed = Layer(4, encoder="transform", **SMALL)
    with pytest.raises(ValueError, match=r"power=0.5 needs features that are not negative"):
        FeatureNetwork([signed], power=0.5, random_state=0).fit_transform(images)


def test_groups_by_hand(images):
    """Colour and depth, or two signals side by side: each has filters of its own."""
    layer = Layer(4, fields=[[0, 1], [2]], random_state=0, **SMALL).fit(images)
    assert [f.n_channels_in_ for f in layer.features_] == [2, 1]
    np.testing.assert_array_equal(layer.groups_[0], [0, 1])


@pytest.mark.parametrize("fields", [[[0, 3]], [[-1]], [[]], []])
def test_groups_that_are_not_there_are_refused(images, fields):
    with pytest.raises(ValueError, match="indices from 0 to 2"):
        Layer(4, fields=fields, **SMALL).fit(images)


def test_rows_have_no_geometry(rng):
    X = rng.normal(size=(500, 12))
    layers = [Layer(6, n_patches=400), Layer(4, n_patches=400, fields=DependencyGroups(5))]
    model = FeatureNetwork(layers, random_state=0).fit(X)
    Z = model.transform(X)
    assert model.layers_[0].maps_shape_ == (1, 1, 12)
    assert Z.shape == (500, model.n_features_out_)
    assert np.isfinite(Z).all()


def test_tensors_stay_tensors(images):
    torch = pytest.importorskip("torch")
    expected = network().fit_transform(images)
    found = network().fit_transform(torch.asarray(images))
    assert isinstance(found, torch.Tensor)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 * expected.max())


def test_same_seed_same_features_and_copies(images):
    model = network().fit(images)
    Z = model.transform(images)
    np.testing.assert_array_equal(clone(model).fit_transform(images), Z)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).transform(images), Z)
    assert not hasattr(clone(model), "layers_")
    assert not hasattr(model.layers[0], "features_")  # what the user gave is left as it was


def test_images_too_small_for_a_layer(images):
    layers = [Layer(4, **SMALL), Layer(4, **SMALL), Layer(4, **SMALL), Layer(4, **SMALL)]
    with pytest.raises(
        ValueError, match=r"input of layer 3 is 2 x 2, smaller than its patch_size=3"
    ):
        FeatureNetwork(layers).fit(images)


def test_other_bad_input(images):
    with pytest.raises(ValueError, match="one Layer or more"):
        FeatureNetwork([]).fit(images)
    with pytest.raises(ValueError, match="give images"):
        network().fit(images[0, 0, 0])
    with pytest.raises(NotFittedError):
        network().transform(images)
    model = network().fit(images)
    with pytest.raises(ValueError, match="resize them"):
        model.transform(images[:, :10])
    with pytest.raises(ValueError, match=r"0 sample\(s\)"):
        model.transform(images[:0])


def test_too_little_disk(images, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda folder: type("Usage", (), {"free": 10}))
    with config_context(memory="64KiB"), pytest.raises(OSError, match="lower n_patches"):
        network().fit(images)
