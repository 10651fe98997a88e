"""Folders of images: what is read, how, and what is said of files that are no images."""

import shutil
import zipfile

import numpy as np
import pytest

from clusterica.datasets import (
    UnreadableImageError,
    load_caltech101,
    load_image_folder,
    read_picture,
)

Image = pytest.importorskip("PIL.Image")


@pytest.fixture
def fresh():
    return np.random.default_rng()


def draw(rng, *shape):
    return rng.integers(256, size=shape, dtype=np.uint8)


def save(path, array, **settings):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(array).save(path, **settings)


@pytest.fixture
def pets(tmp_path, fresh):
    """A folder of two classes, with images of one size in a format without loss."""
    truth = {f"{c}/{i}.png": draw(fresh, 6, 5, 3) for c in ("dog", "cat") for i in (2, 1, 3)}
    for name, image in truth.items():
        save(tmp_path / "pets" / name, image)
    return tmp_path / "pets", dict(sorted(truth.items()))


def test_images_of_one_size_are_one_array(pets):
    folder, truth = pets
    for path in (folder, str(folder)):
        found = load_image_folder(path)
        assert np.array_equal(found.images, list(truth.values()))
        assert found.images.dtype == np.uint8
        assert found.images.flags.c_contiguous
        assert found.class_names == ("cat", "dog")
        assert found.labels.tolist() == [0, 0, 0, 1, 1, 1]
        assert found.labels.dtype == np.int64
        assert [file.relative_to(folder).as_posix() for file in found.files] == list(truth)
        assert found.folds is None


def test_images_of_different_sizes_are_a_list(pets, fresh):
    folder, truth = pets
    large = draw(fresh, 9, 4, 3)
    save(folder / "dog" / "0.png", large)
    found = load_image_folder(folder)
    assert isinstance(found.images, list)
    assert [image.shape for image in found.images] == [(6, 5, 3)] * 3 + [(9, 4, 3)] + [
        (6, 5, 3)
    ] * 3
    assert np.array_equal(found.images[3], large)
    assert all(map(np.array_equal, found.images[:3], truth.values()))


def test_a_folder_without_classes_has_no_labels(pets):
    folder, truth = pets
    found = load_image_folder(folder / "cat")
    assert np.array_equal(found.images, list(truth.values())[:3])
    assert found.labels is None
    assert found.class_names == ()


def test_hidden_files_and_files_beside_the_classes_are_passed_over(pets):
    folder, _ = pets
    (folder / "notes.txt").write_text("two kinds of pets")
    (folder / ".cache").mkdir()
    (folder / "cat" / ".DS_Store").write_bytes(b"x")
    (folder / "cat" / "deeper").mkdir()
    assert load_image_folder(folder).images.shape == (6, 6, 5, 3)


# --- Colours -------------------------------------------------------------------------------------


def only(tmp_path, array, *, name="x.png", color="rgb", resize=None, **settings):
    """Save one image and read it."""
    save(tmp_path / "one" / name, array, **settings)
    return load_image_folder(tmp_path / "one", color=color, resize=resize).images[0]


def test_grey_images(tmp_path, fresh):
    grey = draw(fresh, 4, 7)
    assert np.array_equal(only(tmp_path, grey), np.repeat(grey[..., np.newaxis], 3, axis=2))
    assert np.array_equal(only(tmp_path, grey, color="grey"), grey)
    assert np.array_equal(only(tmp_path, grey, color="keep"), grey)


def test_grey_of_colours_is_the_luminance(tmp_path, fresh):
    color = draw(fresh, 4, 7, 3)
    luminance = color @ [0.299, 0.587, 0.114]
    assert np.abs(only(tmp_path, color, color="grey") - luminance).max() <= 1


def test_an_alpha_channel_is_laid_on_white(tmp_path, fresh):
    color = draw(fresh, 5, 5, 4)
    color[0, 0, 3], color[0, 1, 3] = 0, 255
    alpha = color[..., 3:] / 255
    expected = alpha * color[..., :3] + (1 - alpha) * 255
    found = only(tmp_path, color)
    assert np.abs(found - expected).max() <= 1
    assert found[0, 0].tolist() == [255] * 3
    assert found[0, 1].tolist() == color[0, 1, :3].tolist()


def test_grey_with_alpha_stays_grey(tmp_path, fresh):
    grey = draw(fresh, 5, 5, 2)
    alpha = grey[..., 1] / 255
    expected = alpha * grey[..., 0] + (1 - alpha) * 255
    for color in ("grey", "keep"):
        found = only(tmp_path, grey, color=color)
        assert found.shape == (5, 5)
        assert np.abs(found - expected).max() <= 1


def test_palettes(tmp_path):
    picture = Image.new("P", (3, 2), 1)
    picture.putpalette([0, 0, 0, 10, 20, 30])
    (tmp_path / "one").mkdir()
    picture.save(tmp_path / "one" / "x.png")
    assert load_image_folder(tmp_path / "one").images[0, 1, 2].tolist() == [10, 20, 30]
    picture.save(tmp_path / "one" / "x.png", transparency=1)
    assert load_image_folder(tmp_path / "one", color="keep").images[0, 1, 2].tolist() == [255] * 3


def test_sixteen_bits_keep_the_upper_eight(tmp_path):
    deep = np.array([[0, 255, 256], [4660, 65535, 32768]], np.uint16)
    assert only(tmp_path, deep, color="grey").tolist() == [[0, 0, 1], [18, 255, 128]]


def test_black_and_white(tmp_path):
    found = only(tmp_path, np.array([[True, False]]), color="keep")
    assert found.tolist() == [[255, 0]]


def test_print_colours_become_rgb(tmp_path):
    (tmp_path / "one").mkdir()
    Image.new("CMYK", (4, 4), (0, 0, 0, 0)).save(tmp_path / "one" / "x.jpg")
    assert np.array_equal(load_image_folder(tmp_path / "one").images[0], np.full((4, 4, 3), 255))


def test_a_mixture_is_refused_unless_it_is_made_one(pets, fresh):
    folder, _ = pets
    save(folder / "dog" / "9.png", draw(fresh, 6, 5))
    with pytest.raises(ValueError, match=r"9\.png is grey and .*1\.png has colours.*color='rgb'"):
        load_image_folder(folder, color="keep")
    assert load_image_folder(folder).images.shape == (7, 6, 5, 3)
    assert load_image_folder(folder, color="grey").images.shape == (7, 6, 5)


def test_images_are_turned_as_exif_says(tmp_path, fresh):
    sideways = draw(fresh, 3, 8)
    exif = Image.Exif()
    exif[0x0112] = 6  # to be shown turned by a quarter, clockwise
    found = only(tmp_path, sideways, color="grey", exif=exif)
    assert np.array_equal(found, np.rot90(sideways, -1))


# --- Sizes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "resize", "expected"),
    [
        ((40, 20), 10, (10, 5)),
        ((20, 41), 10, (5, 10)),
        ((7, 5), 21, (21, 15)),
        ((1, 50), 10, (1, 10)),
        ((9, 9), (4, 6), (4, 6)),
        ((9, 9), [12, 3], (12, 3)),
    ],
)
def test_resize(tmp_path, shape, resize, expected):
    ramp = np.linspace(0, 255, shape[0] * shape[1]).reshape(shape).astype(np.uint8)
    found = only(tmp_path, ramp, color="grey", resize=resize)
    assert found.shape == expected
    assert abs(float(found.mean()) - float(ramp.mean())) < 6


def test_shrinking_does_not_alias(tmp_path):
    stripes = np.tile(np.array([0, 255], np.uint8), (64, 32))
    found = only(tmp_path, stripes, color="grey", resize=16).astype(float)
    assert np.abs(found[:, 2:-2] - 127.5).max() < 12  # every fourth column would be all black


def test_resize_to_a_pair_makes_one_array(pets, fresh):
    folder, _ = pets
    save(folder / "cat" / "8.png", draw(fresh, 11, 4, 3))
    assert isinstance(load_image_folder(folder).images, list)
    assert load_image_folder(folder, resize=(6, 6)).images.shape == (7, 6, 6, 3)


@pytest.mark.parametrize("resize", [0, -3, 2.5, True, "8", (8,), (8, 0), (8, 8, 3), (8, 2.5)])
def test_resize_is_checked(pets, resize):
    with pytest.raises(ValueError, match=r"resize is .*whole numbers from 1"):
        load_image_folder(pets[0], resize=resize)


# --- Faults --------------------------------------------------------------------------------------


def spoil(folder):
    """Add a text and a truncated image to a class."""
    (folder / "cat" / "a_text.png").write_text("not an image")
    whole = (folder / "cat" / "1.png").read_bytes()
    (folder / "cat" / "b_half.png").write_bytes(whole[: len(whole) // 2])


def test_what_is_no_image_is_named(pets):
    folder, _ = pets
    spoil(folder)
    with pytest.raises(ValueError, match=r"a_text\.png can't be read as an image.*on_error='skip'"):
        load_image_folder(folder)
    (folder / "cat" / "a_text.png").unlink()
    with pytest.raises(ValueError, match=r"b_half\.png can't be read as an image"):
        load_image_folder(folder)


def test_what_is_no_image_can_be_passed_over(pets):
    folder, truth = pets
    spoil(folder)
    with pytest.warns(UserWarning, match=r"Skipped.*a_text\.png.*b_half\.png") as caught:
        found = load_image_folder(folder, on_error="skip")
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert np.array_equal(found.images, list(truth.values()))
    assert found.labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert len(found.files) == 6


def test_a_long_list_of_files_is_cut_short(pets):
    folder, _ = pets
    for number in range(8):
        (folder / "dog" / f"{number}.txt").write_text("no")
    with pytest.warns(UserWarning, match=r"4\.txt.*; and 3 more"):
        load_image_folder(folder, on_error="skip")


def test_floating_point_images_are_refused(tmp_path):
    save(tmp_path / "a" / "x.tiff", np.ones((3, 3), np.float32))
    with pytest.raises(ValueError, match=r"x\.tiff.*floating-point"):
        load_image_folder(tmp_path / "a")


def test_empty_folders(pets, tmp_path):
    folder, _ = pets
    (folder / "bird").mkdir()
    with pytest.raises(ValueError, match=r"bird is empty.*on_error='skip'"):
        load_image_folder(folder)
    with pytest.warns(UserWarning, match="bird is empty"):
        found = load_image_folder(folder, on_error="skip")
    assert found.class_names == ("bird", "cat", "dog")
    assert found.labels.tolist() == [1, 1, 1, 2, 2, 2]
    (tmp_path / "void" / "void").mkdir(parents=True)
    for path in (tmp_path / "void", tmp_path / "void" / "void"):
        for on_error in ("raise", "skip"):
            with pytest.raises(ValueError, match=r"void holds no images"):
                load_image_folder(path, on_error=on_error)


def test_no_image_at_all(tmp_path):
    (tmp_path / "x.txt").write_text("no")
    with (
        pytest.warns(UserWarning, match=r"x\.txt"),
        pytest.raises(ValueError, match="1 files and none is an image"),
    ):
        load_image_folder(tmp_path, on_error="skip")


def test_not_a_folder(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere does not exist; pass a folder"):
        load_image_folder(tmp_path / "nowhere")
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError, match="file is not a folder"):
        load_image_folder(tmp_path / "file")


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"color": "blue"}, "color is 'blue'"), ({"on_error": "ignore"}, "on_error is 'ignore'")],
)
def test_choices_are_checked(pets, settings, message):
    with pytest.raises(ValueError, match=message):
        load_image_folder(pets[0], **settings)


@pytest.mark.parametrize("load", [load_image_folder, load_caltech101])
def test_without_pillow_the_error_says_what_to_install(tmp_path, uninstalled, load):
    uninstalled("PIL")
    with pytest.raises(ImportError, match=rf'{load.__name__}.*pip install "clusterica\[images\]"'):
        load(tmp_path)


# --- Caltech-101 ---------------------------------------------------------------------------------


@pytest.fixture
def caltech(tmp_path, fresh):
    sizes = {"accordion/image_0001.jpg": (20, 30, 3), "BACKGROUND_Google/image_0001.jpg": (9, 9, 3)}
    sizes |= {"yin_yang/image_0001.jpg": (30, 24), "yin_yang/image_0002.jpg": (60, 10, 3)}
    for name, shape in sizes.items():
        save(tmp_path / "101_ObjectCategories" / name, draw(fresh, *shape))
    return tmp_path


def test_caltech(caltech, monkeypatch):
    monkeypatch.setenv("CLUSTERICA_DATA", str(caltech))
    for path in (None, caltech, caltech / "101_ObjectCategories"):
        found = load_caltech101(path)
        assert found.class_names == ("accordion", "yin_yang")
        assert found.labels.tolist() == [0, 1, 1]
        assert [image.shape for image in found.images] == [(20, 30, 3), (30, 24, 3), (60, 10, 3)]


def test_caltech_with_background_and_sizes(caltech):
    found = load_caltech101(caltech, background=True, color="grey", resize=15)
    assert found.class_names == ("BACKGROUND_Google", "accordion", "yin_yang")
    assert [image.shape for image in found.images] == [(15, 15), (10, 15), (15, 12), (15, 2)]


def test_caltech_that_is_not_there(caltech, tmp_path):
    shutil.rmtree(caltech / "101_ObjectCategories")
    with pytest.raises(FileNotFoundError, match=r"caltech-101\.zip.*101_ObjectCategories"):
        load_caltech101(tmp_path)
    (tmp_path / "x.zip").write_bytes(b"x")
    with pytest.raises(NotADirectoryError, match=r"x\.zip is a file"):
        load_caltech101(tmp_path / "x.zip")


def test_pictures_of_a_zip_archive(pets, tmp_path):
    """An open file is read as its path is, and named in errors."""
    folder, truth = pets
    archive = shutil.make_archive(tmp_path / "pets", "zip", folder)
    with zipfile.ZipFile(archive, "a") as box:
        box.writestr("notes.png", "no picture")
        for name, image in truth.items():
            with box.open(name) as file:
                assert np.array_equal(read_picture(file), image)
        with box.open("notes.png") as file, pytest.raises(UnreadableImageError) as caught:
            read_picture(file)
    assert str(caught.value) == "notes.png can't be read as an image: cannot identify image file"
