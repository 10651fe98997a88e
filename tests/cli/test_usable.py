"""Images that can't be used: they stop a command, or are skipped with an entry that says so."""

import csv
import io
import json
import shutil
import zipfile

import numpy as np
import pytest

import clusterica
from clusterica.cli.inputs.images import open_images
from clusterica.cli.inputs.usable import find_usable

SMALL = ("--filters", "8", "--patches", "1000", "--patch-size", "4")


@pytest.fixture
def damaged(pets, tmp_path):
    """A copy of the images with two that can't be read and one of 3 x 3 pixels, and a folder without any."""
    image = pytest.importorskip("PIL.Image")
    folder = tmp_path / "own"
    shutil.copytree(pets, folder)
    (folder / "flat" / "00.png").write_text("no picture")
    whole = (folder / "upright" / "07.png").read_bytes()
    (folder / "upright" / "07.png").write_bytes(whole[: len(whole) // 2])
    image.new("L", (3, 3)).save(folder / "flat" / "tiny.png")
    (folder / "empty").mkdir()
    return folder


@pytest.mark.parametrize("words", [("learn", "own", *SMALL), ("train", "own", "--filters", "8")])
def test_a_damaged_image_stops_or_is_left_out(command, damaged, words):
    code, _, err = command(*words, "-o", "m.st")
    assert code == 1
    assert "00.png can't be read as an image" in err
    assert "--on-error skip" in err
    if words[0] == "train":
        (damaged / "flat" / "tiny.png").unlink()  # of another size, which training takes none of
        assert "No images in empty" in err
    code, out, err = command(*words, "-o", "m.st", "--on-error", "skip", "--json")
    assert code == 0, err
    n_left = 3 if words[0] == "learn" else 2
    assert f"{n_left} images left out: " in err
    assert "00.png can't be read" in err
    assert "07.png can't be read" in err
    data = json.loads(out)["data"]
    assert (data["n"], data["left_out"]) == (38, n_left)
    assert command("report", "m.st", "-o", "page.html")[0] == 0
    with open("page.html", encoding="utf-8") as file:
        assert f"; {n_left} left out, damaged or too small" in file.read()


def test_damaged_images_without_labels(command, pets, damaged):
    words = ("train", pets, "--filters", "8", "--unlabeled", "own", "-o", "m.st")
    code, _, err = command(*words)
    assert code == 1
    assert "00.png can't be read as an image" in err
    assert "--on-error skip" in err
    code, out, err = command(*words, "--on-error", "skip", "--json")
    assert code == 0, err
    assert "2 images left out: " in err
    assert json.loads(out)["trained_on"] == 40
    for file in damaged.rglob("*.png"):
        file.write_text("no picture")
    code, _, err = command(*words, "--on-error", "skip")
    assert code == 1
    assert "none of the images in own can be used" in err


def test_images_without_labels_are_like_those_with(command, pets, tmp_path):
    for shape, message in (
        ((9, 12, 12, 3), "the images in more.npy have 3 channels, and those with labels have 1"),
        ((9, 10, 12), "has images of 10 x 12 pixels, and 12 x 12 are needed"),
    ):
        np.save(tmp_path / "more.npy", np.zeros(shape, np.uint8))
        code, _, err = command("train", pets, "--unlabeled", "more.npy", "-o", "m.st")
        assert code == 1
        assert message in err
        assert [p.name for p in tmp_path.iterdir()] == ["more.npy"]


def test_files_of_an_earlier_result_go(command, models, damaged, tmp_path):
    words = ("features", models / "features.st")
    assert command(*words, "own", "-o", "f.npy", "--on-error", "skip")[0] == 0
    beside = ["f.npy", "f.npy.errors.csv", "f.npy.names.txt"]
    assert sorted(p.name for p in tmp_path.glob("f.*")) == beside
    for name in ("flat/00.png", "flat/tiny.png", "upright/07.png"):
        (damaged / name).unlink()
    assert command(*words, "own", "-o", "f.npy")[0] == 0
    assert sorted(p.name for p in tmp_path.glob("f.*")) == ["f.npy", "f.npy.names.txt"]
    np.save(tmp_path / "array.npy", np.zeros((2, 12, 12), np.uint8))
    assert command(*words, "array.npy", "-o", "f.npy")[0] == 0
    assert sorted(p.name for p in tmp_path.glob("f.*")) == ["f.npy"]


def test_features_of_a_skipped_image_are_nan(command, models, damaged, tmp_path):
    model = models / "features.st"
    assert command("features", model, "own", "-o", "f.npy")[0] == 1
    found = []
    for block in ("1", "7", "1000"):
        code, _, err = command(
            "features", model, "own", "-o", "f.npy", "--on-error", "skip", "--block", block
        )
        assert code == 0, err
        assert "3 images skipped, their features are NaN (see f.npy.errors.csv)" in err
        found.append(np.load("f.npy"))
        names = (tmp_path / "f.npy.names.txt").read_text().splitlines()
        bad = [name for name, row in zip(names, found[-1], strict=True) if np.isnan(row).all()]
        with open("f.npy.errors.csv", encoding="utf-8") as file:
            errors = {row["file"]: row["error"] for row in csv.DictReader(file)}
        assert list(errors) == bad == ["flat/00.png", "flat/tiny.png", "upright/07.png"]
        assert "3 x 3 pixels, and at least" in errors["flat/tiny.png"]
        np.testing.assert_array_equal(np.isnan(found[-1]).any(axis=1), [n in bad for n in names])
    np.testing.assert_allclose(found[0], found[2], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("block", ["1", "1000"])
def test_a_skipped_image_has_no_class_and_a_reason(command, models, damaged, block):
    words = ("predict", models / "classes.st", "own", "--on-error", "skip", "--block", block)
    code, out, err = command(*words, "--probabilities")
    assert code == 0, err
    rows = {row["file"]: row for row in csv.DictReader(io.StringIO(out))}
    assert list(rows["flat/01.png"]) == ["file", "class", "flat", "upright", "error"]
    bad = [name for name, row in rows.items() if row["error"]]
    assert bad == ["flat/00.png", "upright/07.png"]  # this model scales images, tiny ones too
    assert all(rows[name]["class"] == rows[name]["flat"] == "" for name in bad)
    assert "2 images skipped: " in err
    code, out, _ = command(*words, "--json")
    lines = [json.loads(line) for line in out.splitlines()]
    assert [line["file"] for line in lines if "class" not in line] == bad
    assert command(*words, "-o", "p.jsonl")[0] == 0
    with open("p.jsonl", encoding="utf-8") as file:
        assert file.read() == out


def test_features_for_a_program(command, models, damaged):
    words = ("features", models / "features.st", "own", "-o", "f.npy", "--on-error", "skip")
    code, out, _ = command(*words, "--json")
    assert code == 0
    facts = json.loads(out)
    assert (facts["file"], facts["n"]) == ("f.npy", 41)
    assert list(facts["errors"]) == ["flat/00.png", "flat/tiny.png", "upright/07.png"]


def test_a_damaged_member_of_an_archive(pets, tmp_path):
    with zipfile.ZipFile(tmp_path / "pets.zip", "w") as box:
        for i, file in enumerate(sorted((pets / "flat").iterdir())):
            box.writestr(f"{i:02d}.png", b"no picture" if i == 3 else file.read_bytes())
    found = find_usable(open_images(str(tmp_path / "pets.zip")), on_error="skip")
    assert list(found.errors) == ["03.png"]
    assert found.places == [i for i in range(20) if i != 3]
    some = find_usable(open_images(str(tmp_path / "pets.zip")), limit=5, on_error="skip")
    assert len(some.images) == 5


def test_none_can_be_used(command, models, tmp_path):
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "a.png").write_text("no picture")
    for words in (
        ("learn", "none", "-o", "m.st"),
        ("features", models / "features.st", "none", "-o", "f.npy"),
    ):
        code, _, err = command(*words, "--on-error", "skip")
        assert code == 1
        assert "none of the images in none can be used" in err


def test_images_farther_down_are_pointed_at(command, pets, tmp_path):
    shutil.copytree(pets, tmp_path / "top" / "middle" / "pets")
    code, _, err = command("learn", "top", "-o", "m.st", *SMALL)
    assert code == 1
    assert "flat has; give that one" in err.replace("upright", "flat")


@pytest.mark.parametrize("recipe", ["fast", "accurate", "best"])
def test_learn_by_a_recipe(command, pets, recipe):
    code, out, err = command(
        *(
            "learn",
            pets,
            "--recipe",
            recipe,
            "--filters",
            "6",
            "--patches",
            "500",
            "--json",
            "-o",
            "m.st",
        )
    )
    assert code == 0, err
    code, _, err = command("features", "m.st", pets, "-o", "f.npy")
    assert code == 0, err
    assert np.load("f.npy").shape == (40, json.loads(out)["features"])
    code, _, err = command("predict", "m.st", pets)
    assert code == 1
    assert "predicts no classes. Train a model with: clusterica train" in err
    code, out, _ = command("info", "m.st", "--json")
    assert json.loads(out)["features"] == np.load("f.npy").shape[1]
    assert command("report", "m.st", "-o", "page.html")[0] == 0


def test_a_recipe_is_for_images_of_one_size(command, damaged):
    words = ("learn", "own", "--recipe", "fast", "--filters", "6", "--on-error", "skip")
    code, _, err = command(*words, "-o", "m.st")
    assert code == 1
    assert "add --size 32" in err
    code, _, err = command(*words, "--layers", "2", "-o", "m.st")
    assert code == 2
    assert "leave out --patch-size and --layers" in err
    code, _, err = command(*words, "--size", "12", "--dry-run", "-o", "m.st")
    assert code == 0, err
    code, _, err = command(*words, "--size", "12", "--patches", "500", "-o", "m.st")
    assert code == 0, err
    assert clusterica.load("m.st").networks_[0].image_shape_ == (12, 12, 1)
