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
    monkeypatch.setattr(Layer, "_learn", lambda *_: pytest.fail("a layer was learned"))
    with config_context(memory="64KiB"), pytest.raises(OSError, match="lower n_patches"):
        network().fit(images)


@pytest.mark.parametrize("grid", [(2, 2), [(1, 1), (3, 2)]], ids=str)
@pytest.mark.parametrize("pooling", ["sum", "mean", "max", "l2", "gaussian"])
@pytest.mark.parametrize("encoder", ["soft-threshold", "triangle", "sigmoid", "hard"])
def test_features_are_those_of_slow_loops(images, plain_transform, encoder, pooling, grid):
    """Two layers, patch by patch in float64; strides, overlapping groups, mirror images and powers."""
    shared = {"encoder": encoder, "pooling": pooling, "n_patches": 1500}
    first = Layer(5, patch_size=3, stride=1, pool_size=2, fields=[[0, 2], [1]], **shared)
    second = Layer(
        4, patch_size=2, stride=2, pool_size=2, fields=[[0, 1, 5], [1, 4], [3]], **shared
    )
    settings = {"grid": grid, "mirror": pooling == "max", "power": 0.5 if pooling == "l2" else 1.0}
    model = FeatureNetwork([first, second], random_state=0, **settings).fit(images)
    found, expected = model.transform(images[:3]), plain_transform(model, images[:3])
    if encoder == "hard":  # a patch between two atoms may go to either
        assert (np.abs(found - expected) > 1e-3 * expected.max()).mean() < 0.02
    else:
        np.testing.assert_allclose(found, expected, atol=3e-4 * expected.max())


def test_groups_are_gathered_alike_on_threads_and_devices(images):
    """Compiled code gathers the maps of a group in cache, others copy them: features are the same."""
    pytest.importorskip("torch")
    model = network().fit(images)
    expected = model.transform(images)
    with config_context(threads=3, memory="1MiB"):
        np.testing.assert_array_equal(model.transform(images), expected)
    with config_context(device="cpu"):
        found = model.transform(images)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 * expected.max())
    single = np.concatenate([model.transform(one[None]) for one in images[:5]])
    np.testing.assert_allclose(single, expected[:5], rtol=1e-5, atol=1e-6 * expected.max())


def test_maps_of_dark_images_raise_no_warning(rng):
    """Maps have no nominal range: only images are compared with those in fit, and all of them at once."""
    images = rng.integers(0, 256, size=(60, 12, 12)).astype(np.uint8)
    model = network().fit(images)
    images[:30] //= 200
    with config_context(memory="64KiB"):
        model.transform(images)
    model.transform(images[:1] + 2)
    with pytest.warns(UserWarning, match="give both in the same range"):
        model.transform(images[40:] / 255)


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (Layer(4, patch_size=2, fields=[[0, 99]]), "indices from 0 to 15"),
        (
            Layer(4, patch_size=2, fields=DependencyGroups(4, n_groups=17)),
            "more than the 16 inputs",
        ),
        (Layer(0), "n_filters"),
        (Layer(4, patch_size=2, encoder="none"), "encoder='none' is not known"),
    ],
    ids=str,
)
def test_wrong_layers_are_refused_before_any_is_learned(images, monkeypatch, second, message):
    monkeypatch.setattr(Layer, "_learn", lambda *_: pytest.fail("a layer was learned"))
    with pytest.raises(ValueError, match=message):
        FeatureNetwork([Layer(8, **SMALL), second]).fit(images)


def test_maps_with_too_few_channels(images):
    layer = Layer(4, fields=[[0, 2], [1]], random_state=0, **SMALL).fit(images)
    with pytest.raises(ValueError, match="X has 2 channels, and a group has channel 2"):
        layer.transform(images[..., :2])
