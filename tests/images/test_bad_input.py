"""Errors and warnings about images and settings: what is wrong, and what to do."""

import warnings

import numpy as np
import pytest

from clusterica.encoders import SoftThresholdEncoder
from clusterica.images import ImageFeatures


def model(**settings):
    return ImageFeatures(4, **{"patch_size": 3, "n_patches": 50, "random_state": 0, **settings})


@pytest.fixture
def fitted(images):
    return model().fit(images)


def check(fitted, X, error, match):
    for call in (model().fit, fitted.transform, fitted.score):
        with pytest.raises(error, match=match):
            call(X)


def test_images_smaller_than_a_patch(fitted, images):
    check(
        fitted,
        images[:, :2],
        ValueError,
        r"image 0 has 2 x 11 pixels, too few for a patch of 3 x 3",
    )
    listed = [images[0], images[1, :, :2]]
    check(fitted, listed, ValueError, "image 1 has 10 x 2 pixels")
    first = images.transpose(0, 3, 1, 2)  # channels first
    with pytest.raises(ValueError, match=r"Channels must come last: X.transpose\(0, 2, 3, 1\)"):
        model(patch_size=6).fit(first)


def test_images_with_too_few_places(images):
    with pytest.raises(
        ValueError, match=r"image 0 has 8 x 9 places.*9 x 9 cells of regions=\(1, 1\)"
    ):
        model(grid=(9, 9)).fit(images)
    with pytest.raises(ValueError, match=r"3 x 3 places for patches, fewer than the 4 x 2 cells"):
        model(grid=[(1, 1), (2, 2)], regions=(2, 1), stride=3).fit(images)
    with pytest.raises(ValueError, match="image 1 has 1 x 9 places"):
        model().fit(images).transform([images[0], images[1, :3]])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_values_that_are_not_finite(fitted, images, bad):
    X = images / 255
    X[7, 2, 3, 1] = bad
    word = "NaN" if np.isnan(bad) else "infinity"
    check(fitted, X, ValueError, f"Input X contains {word}, among the images from 0 on")
    check(fitted, list(X), ValueError, f"Input X contains {word}")


def test_wrong_numbers_of_axes(fitted, images):
    check(fitted, images[0, :, :, 0], ValueError, r"got an array of shape \(10, 11\).*reshape rows")
    check(fitted, images[None], ValueError, r"got an array of shape \(1, 12, 10, 11, 3\)")
    check(fitted, np.zeros(5), ValueError, r"got an array of shape \(5,\).*X\[None\]")
    check(fitted, [images[0], images[0, 0, 0]], ValueError, r"image 1 has shape \(3,\)")


def test_no_images(fitted, images):
    check(fitted, images[:0], ValueError, r"0 sample\(s\) \(shape=\(0, 10, 11, 3\)\)")
    check(fitted, [], ValueError, "Found 0 images")
    check(fitted, images[..., :0], ValueError, "0 channels")


def test_other_types(fitted, images):
    check(fitted, iter(images), TypeError, "takes an array of images")
    check(fitted, "photos/", TypeError, "not str")
    check(fitted, images.astype(complex), ValueError, "Complex data not supported")
    check(fitted, images.astype(str), ValueError, "dtype <U")


def test_lists_of_mixed_images(fitted, images):
    grey, alpha = images[0, :, :, 0], np.dstack([images[0], images[0, :, :, 0]])
    check(
        fitted, [images[0], grey], ValueError, "image 0 has 3 channels and image 1 has 1; convert"
    )
    check(fitted, [images[0], alpha], ValueError, r"may have an alpha channel: image\[..., :3\]")
    check(fitted, [images[0], images[1] / 255], ValueError, "dtype uint8 and image 1 float64")


def test_tensors_among_arrays(fitted, images):
    torch = pytest.importorskip("torch")
    check(
        fitted, [images[0], torch.asarray(images[1])], TypeError, "image 1 a Tensor; give one kind"
    )
    check(fitted, torch.asarray(images).to_sparse(), TypeError, "sparse tensors")


def test_other_channels_than_in_fit(fitted, images):
    for call in (fitted.transform, fitted.score):
        with pytest.raises(ValueError, match="X has 1 channels, but ImageFeatures is expecting 3"):
            call(images[..., :1])


def test_one_colour_image(fitted, images):
    for call in (fitted.transform, fitted.score):
        with pytest.raises(ValueError, match=r"grey images; give one colour image as X\[None\]"):
            call(images[0])


def test_alpha_channels(images):
    opaque = np.concatenate([images, np.full_like(images[..., :1], 255)], axis=3)
    with pytest.warns(
        UserWarning, match=r"the last of 4 channels is 255.*drop it with X\[..., :-1\]"
    ):
        model().fit(opaque)
    model().fit(
        np.concatenate([images, images[..., :1]], axis=3)
    )  # four channels that say something


def test_more_filters_than_patches(images):
    with pytest.raises(
        ValueError, match=r"n_filters=60 is more than the 50 patches.*raise n_patches"
    ):
        model(n_patches=50).set_params(n_filters=60).fit(images)
    with pytest.raises(ValueError, match="n_filters=4 is more than the 3 patches"):
        model(grid=(1, 1)).fit(images[:1, :3, :5])


def test_labels_that_do_not_match(images):
    with pytest.raises(ValueError, match=r"there are 12 images and y has shape \(11,\)"):
        model().fit(images, np.zeros(11))


@pytest.mark.parametrize(
    ("settings", "error", "match"),
    [
        ({"n_filters": 0}, ValueError, "n_filters"),
        ({"patch_size": 0}, ValueError, "patch_size"),
        ({"stride": 0}, ValueError, "stride"),
        ({"pooling": "median"}, ValueError, "pooling"),
        ({"grid": (2, 0)}, ValueError, r"grid=\(2, 0\) must be a pair"),
        ({"grid": (2, 2, 2)}, ValueError, r"grid=\(2, 2, 2\) must be a pair"),
        ({"grid": [(1, 1), (2,)]}, ValueError, r"grid=\(2,\) must be a pair"),
        ({"grid": ()}, ValueError, r"grid=\(\) must be a pair"),
        ({"grid": 2}, ValueError, "grid"),
        ({"regions": (1.5, 2)}, ValueError, r"regions=\(1.5, 2\) must be a pair"),
        ({"learner": "ica"}, ValueError, "learner='ica' is not known"),
        ({"learner": 3}, TypeError, "learner=3 must be one of"),
        ({"encoder": "softmax"}, ValueError, "encoder='softmax' is not known"),
        ({"encoder": SoftThresholdEncoder(alpha=-1)}, ValueError, "alpha"),
        (
            {"encoder": "transform", "learner": "patches"},
            ValueError,
            "needs a learner with a transform",
        ),
        ({"normalizer": "contrast"}, TypeError, "normalizer='contrast' must be 'auto'"),
        ({"whitener": 0.1}, TypeError, "whitener=0.1 must be 'auto'"),
    ],
    ids=str,
)
def test_bad_settings(images, settings, error, match):
    with pytest.raises(error, match=match):
        model().set_params(**settings).fit(images)


def test_stages_of_something_else(fitted, images):
    with pytest.raises(
        ValueError, match=r"patches have shape \(12, 10, 11, 3\); they must be rows of 27"
    ):
        fitted.stages(images)


@pytest.mark.parametrize("several_sizes", [False, True])
def test_images_in_another_range_than_those_of_fit(put, several_sizes):
    """Bytes in 0..255 as floats in 0..1, or the other way round, would be classified by chance."""
    rng = np.random.default_rng()
    images = rng.integers(0, 256, size=(40, 8, 8)).astype(np.float32)

    def given(values):
        if several_sizes:
            return [put(values[i, : 8 - i % 2].copy()) for i in range(len(values))]
        return put(values)

    for first, other in ((images, images / 255), (images / 255, images)):
        features = ImageFeatures(4, patch_size=3, n_patches=200, normalizer=None, random_state=0)
        features.fit(given(first))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            features.transform(given(first[:3]))
            features.transform(given(np.zeros_like(first[:3])))
        with pytest.warns(UserWarning, match=r"values up to .* in fit had up to .* the same range"):
            features.transform(given(other))
