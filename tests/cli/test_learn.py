"""clusterica learn and train: what they read, print and save, and what they say of wrong input."""

import json
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file

import clusterica
from clusterica.cli._train import held_out
from clusterica.cli.inputs.images import open_images
from clusterica.cluster._lloyd import Lloyd

SMALL = ("--filters", "8", "--patches", "1000")


def digits(folder, *, n=100, **more):
    """Write digits to a .npz file, with labels."""
    found = clusterica.datasets.load_digits_images()
    np.savez(folder / "digits.npz", images=found.images[:n], labels=found.labels[:n], **more)
    return folder / "digits.npz"


@pytest.fixture
def forms(pets, tmp_path):
    """The same images as a folder, an archive with and without its top folder, and arrays."""
    zarr = pytest.importorskip("zarr")
    images = open_images(str(pets)).read()
    shutil.make_archive(tmp_path / "bare", "zip", pets)
    shutil.make_archive(tmp_path / "whole", "zip", pets.parent, "pets")
    np.save(tmp_path / "pets.npy", images)
    np.savez(tmp_path / "pets.npz", images=images, y=np.repeat(["flat", "upright"], 20))
    group = zarr.create_group(tmp_path / "pets.zarr")
    group.create_array("images", data=images)
    group.create_array("labels", data=np.repeat([0, 1], 20))
    zarr.create_array(tmp_path / "plain.zarr", data=images)
    return {name: tmp_path / name for name in ("bare.zip", "whole.zip", "pets.npy", "pets.npz")} | {
        "pets.zarr": tmp_path / "pets.zarr",
        "plain.zarr": tmp_path / "plain.zarr",
        "pets": pets,
    }


def test_all_forms_hold_the_same_images(forms):
    truth = open_images(str(forms["pets"]))
    assert truth.labels.tolist() == ["flat"] * 20 + ["upright"] * 20
    assert truth.names[0] == "flat/00.png"
    for name, path in forms.items():
        found = open_images(str(path))
        np.testing.assert_array_equal(found.read(), truth.read())
        np.testing.assert_array_equal(found.read(3, 7), truth.read()[3:7])
        if name in ("pets.npy", "plain.zarr"):
            assert found.labels is None
        elif name == "pets.zarr":
            assert found.labels.tolist() == ["0"] * 20 + ["1"] * 20
        else:
            assert found.labels.tolist() == truth.labels.tolist()


def test_learn_gives_the_same_model_for_all_forms(command, forms):
    filters = []
    for path in forms.values():
        code, _, _ = command("learn", path, "-o", "m.st", *SMALL)
        assert code == 0
        filters.append(clusterica.load("m.st").filters_)
    assert all(np.array_equal(filters[0], other) for other in filters)


def test_learn(command, pets, tmp_path):
    code, out, err = command("learn", pets, "-o", "m.st", "--json", *SMALL)
    assert code == 0, err
    facts = json.loads(out)
    model = clusterica.load("m.st")
    assert facts["features"] == model.n_features_out_ == 64
    assert facts["data"] == {"source": str(pets), "n": 40, "shape": [12, 12]}
    assert clusterica.io.load_summary("m.st")["command"] == "learn"
    assert [p.name for p in tmp_path.iterdir()] == ["m.st"]


def test_learn_two_layers(command):
    code, out, err = command(
        "learn", "digits", "-o", "m.st", "--layers", "2", "--patch-size", "3", *SMALL
    )
    assert code == 0, err
    assert "8 filters from 1,797 images" in out
    assert len(clusterica.load("m.st").layers_) == 2


def test_learn_from_some_images_in_another_size(command, pets):
    code, out, _ = command(
        "learn",
        pets,
        "-o",
        "m.st",
        "--limit",
        "5",
        "--size",
        "10x9",
        "--color",
        "rgb",
        "--json",
        *SMALL,
    )
    assert code == 0
    assert json.loads(out)["data"] == {"source": str(pets), "n": 5, "shape": [10, 9, 3]}


def test_dry_run_writes_nothing(command, pets, tmp_path):
    words = ("learn", pets, "-o", "m.st", "--dry-run", "--patches", "50_000", "--filters", "8")
    code, out, _ = command(*words)
    assert code == 0
    assert out.startswith("Time: about ")
    assert "Memory: up to " in out
    _, out, _ = command(*words, "--json", "--memory", "64MiB", "--layers", "2")
    facts = json.loads(out)
    parts = [facts[f"{name}_bytes"] for name in ("images", "patches", "working")]
    assert parts == [40 * 144, 2 * 4 * 50_000 * 36, 64 * 2**20]
    assert facts["memory_bytes"] == sum(parts)
    assert facts["seconds"] >= facts["trial_seconds"]
    assert list(tmp_path.iterdir()) == []


def test_train(command, pets, tmp_path):
    code, out, err = command("train", pets, "-o", "m.st", "--filters", "8")
    assert code == 0, err
    assert "Validation accuracy: 100.00 % of 8 held-out images." in out
    assert "Trained on 40 of 40 images" in out
    model = clusterica.load("m.st")
    assert model.classes_.tolist() == ["flat", "upright"]
    tried = clusterica.io.load_summary("m.st")["validation"]
    assert tried["accuracy"] == 1.0
    assert tried["confusion"].tolist() == [[4, 0], [0, 4]]
    assert [p.name for p in tmp_path.iterdir()] == ["m.st"]


def test_train_without_the_held_out_images(command, pets):
    words = ("train", pets, "-o", "m.st", "--filters", "8", "--json")
    _, out, _ = command(*words, "--validation", "0.5", "--no-refit")
    facts = json.loads(out)
    assert (facts["trained_on"], facts["validation"]["n"]) == (20, 20)
    _, out, _ = command(*words, "--validation", "0")
    facts = json.loads(out)
    assert (facts["trained_on"], facts["validation"]) == (40, None)


def test_train_with_labels_of_a_file_and_more_images(command, pets, tmp_path):
    images = open_images(str(pets))
    np.save(tmp_path / "images.npy", images.read())
    (tmp_path / "lines.txt").write_text("\n".join(images.labels))
    rows = [f"{i},{name}" for i, name in reversed(list(enumerate(images.labels)))]
    (tmp_path / "table.csv").write_text("\n".join(["file,class", *rows]))
    np.save(tmp_path / "labels.npy", images.labels)
    for labels in ("lines.txt", "table.csv", "labels.npy"):
        code, out, err = command(
            *("train", "images.npy", "--labels", labels, "--unlabeled", pets, "--json"),
            *("-o", "m.st", "--filters", "8"),
        )
        assert code == 0, err
        assert json.loads(out)["validation"]["accuracy"] == 1.0


def test_class_names_of_an_array(command, tmp_path):
    names = np.array([f"digit {i}" for i in range(10)])
    path = digits(tmp_path, class_names=names)
    code, out, _ = command("train", path, "-o", "m.st", "--filters", "8", "--json")
    assert code == 0
    assert json.loads(out)["data"]["classes"] == names.tolist()


@pytest.mark.parametrize("share", [0.01, 0.2, 0.5, 0.99])
def test_held_out_images_are_of_every_class(share):
    rng = np.random.default_rng()
    names = rng.permutation(np.repeat(["a", "b", "c"], rng.integers(2, 40, size=3)))
    held = held_out(names, share, seed=int(rng.integers(100)))
    for name in "abc":
        n, n_held = np.sum(names == name), np.sum(held[names == name])
        assert 1 <= n_held <= n - 1
        assert abs(n_held - share * n) <= 1


WRONG = {
    "no such file": (
        ("learn", "nowhere", "-o", "m.st"),
        "there is no file or folder nowhere. Give",
    ),
    "not downloaded": (("learn", "mnist", "-o", "m.st"), "Get it with: clusterica download mnist"),
    "unknown kind": (("learn", "notes.txt", "-o", "m.st"), "notes.txt can't be read as images"),
    "empty folder": (("learn", "empty", "-o", "m.st"), "empty has no images in it"),
    "bad archive": (("learn", "bad.zip", "-o", "m.st"), "bad.zip is not a zip archive"),
    "bad array": (("learn", "bad.npy", "-o", "m.st"), "bad.npy can't be read as an array"),
    "rows": (("learn", "rows.npy", "-o", "m.st"), "(5, 4)"),
    "no folder": (("learn", "digits", "-o", "no/m.st"), "there is no folder no; create it"),
    "a folder": (("learn", "digits", "-o", "empty"), "empty is a folder; give the name of a file"),
    "size": (("learn", "digits", "-o", "m.st", "--size", "big"), "--size big is not a size"),
    "memory": (("learn", "digits", "-o", "m.st", "--memory", "much"), "'much' is not an amount"),
    "device": (("learn", "digits", "-o", "m.st", "--device", "bogus"), "device='bogus'"),
    "color": (
        ("learn", "digits", "-o", "m.st", "--color", "rgb"),
        "--color rgb is for image files",
    ),
    "patch": (("learn", "digits", "-o", "m.st", "--patch-size", "20"), "lower patch_size"),
    "layers": (("learn", "mixed", "-o", "m.st", "--layers", "2"), "add --size 32"),
    "damaged": (("learn", "damaged", "-o", "m.st"), "a.png can't be read as an image"),
    "no labels": (("train", "photos", "-o", "m.st"), "photos has no labels. Put the images"),
    "one class": (("train", "one", "-o", "m.st"), "one has one class, cat"),
    "few": (("train", "few", "-o", "m.st"), "class dog has one image"),
    "sizes": (
        ("train", "mixed", "-o", "m.st"),
        "6 x 6 and 7 x 7 pixels: scale them to one with --size",
    ),
    "labels": (("train", "digits", "-o", "m.st", "--labels", "few.txt"), "labels of shape (2,)"),
    "no file of labels": (("train", "digits", "-o", "m.st", "--labels", "x"), "there is no file x"),
    "table": (
        ("train", "digits", "-o", "m.st", "--labels", "two.csv"),
        "the columns file and class",
    ),
    "missing label": (
        ("train", "digits", "-o", "m.st", "--labels", "some.csv"),
        "no label for 1, ",
    ),
    "input": (("learn", "rows.npy", "-o", "rows.npy"), "rows.npy is what the command reads"),
}


@pytest.fixture
def mess(tmp_path, monkeypatch):
    """Files that are wrong in different ways."""
    image = pytest.importorskip("PIL.Image")
    monkeypatch.setenv("CLUSTERICA_DATA", str(tmp_path / "data"))
    for name in ("notes.txt", "bad.zip", "bad.npy"):
        (tmp_path / name).write_text("nothing of that kind")
    np.save(tmp_path / "rows.npy", np.ones((5, 4)))
    (tmp_path / "few.txt").write_text("a\nb\n")
    (tmp_path / "two.csv").write_text("a,b\n1,2\n")
    (tmp_path / "some.csv").write_text("file,class\n0,cat\n")
    (tmp_path / "empty").mkdir()
    files = {"one/cat": 2, "few/cat": 2, "few/dog": 1, "mixed/cat": 2, "mixed/dog": 2}
    for folder, n in files.items():
        (tmp_path / folder).mkdir(parents=True)
        for i in range(n):
            side = 6 + i * folder.startswith("mixed")
            picture = np.full((side, side), 40 * i, np.uint8)
            image.fromarray(picture).save(tmp_path / folder / f"{i}.png")
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "a.png").write_text("no picture")


@pytest.mark.parametrize("name", WRONG)
def test_errors_say_what_to_do(command, mess, tmp_path, name):
    words, message = WRONG[name]
    if name == "device":
        pytest.importorskip("torch")
    before = sorted(tmp_path.rglob("*"))
    code, out, err = command(*words)
    assert code in (1, 2)
    assert message in err
    assert err.count("\n") == 1, "one line"
    assert out == ""
    assert sorted(tmp_path.rglob("*")) == before


def test_files_that_are_no_images_are_named(command, pets, tmp_path):
    shutil.copytree(pets, tmp_path / "own")
    (tmp_path / "own" / "flat" / "notes.txt").write_text("")
    code, _, err = command("learn", "own", "-o", "m.st", *SMALL)
    assert code == 0
    assert "1 file in own left out, such as flat/notes.txt." in err


def test_grey_and_coloured_images_are_read_together(tmp_path):
    image, rng = pytest.importorskip("PIL.Image"), np.random.default_rng()
    grey = rng.integers(256, size=(5, 5), dtype=np.uint8)
    colored = rng.integers(256, size=(5, 5, 3), dtype=np.uint8)
    image.fromarray(grey).save(tmp_path / "a.png")
    image.fromarray(colored).save(tmp_path / "b.png")
    truth = np.stack([np.stack([grey] * 3, axis=2), colored])
    np.testing.assert_array_equal(open_images(str(tmp_path)).read(), truth)


@pytest.mark.parametrize("words", [("learn", "--patches", "1000"), ("train",)])
def test_ctrl_c_leaves_no_file(command, pets, tmp_path, monkeypatch, words):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    name, *more = words
    # In the middle of the work, and while the model is written.
    for place in ("clusterica.cluster.GainShapeKMeans.fit", "safetensors.numpy.save"):
        with monkeypatch.context() as patch:
            patch.setattr(place, interrupted)
            code, out, err = command(name, pets, "-o", "m.st", "--filters", "8", *more)
        assert (code, out) == (130, "")
        assert err.endswith("Error: Stopped.\n")
        assert list(tmp_path.iterdir()) == []


def test_the_summary_goes_into_the_model(command, pets, monkeypatch):
    """clusterica.report.summarize gets the model, the images, the labels and what was held out."""
    calls = []

    def summarize(model, images, *, labels, validation, source, seconds):
        calls.append((model, images, labels, validation))
        assert source == str(pets)
        assert seconds > 0
        return {"banks": np.arange(3), "data": {"n": len(images)}}

    monkeypatch.setattr(clusterica.report, "summarize", summarize, raising=False)
    assert command("train", pets, "-o", "m.st", "--filters", "8")[0] == 0
    model, images, labels, (tried, truth, predicted) = calls[0]
    assert model.score(images, labels) == 1
    assert len(tried) == 8
    assert truth.tolist() == predicted.tolist()
    assert clusterica.io.load_summary("m.st")["banks"].tolist() == [0, 1, 2]


@pytest.fixture
def stopped_in_step(monkeypatch):
    """Press Ctrl-C in a step of K-means, the steps being counted."""
    step, steps = Lloyd.step, []

    def stop_in(number):
        def counted(*args):
            steps.append(1)
            if len(steps) == number:
                raise KeyboardInterrupt
            return step(*args)

        steps.clear()
        monkeypatch.setattr(Lloyd, "step", counted)
        return steps

    return stop_in


def learned(path):
    """Return the arrays of a model, without those of its summary."""
    found = load_file(path)
    return {name: found[name] for name in found if not name.startswith("summary")}


@pytest.mark.parametrize("words", [("learn", "--patches", "1000"), ("train",)])
def test_a_run_that_was_stopped_goes_on(command, pets, tmp_path, stopped_in_step, words):
    name, *more = words
    same = (name, pets, "--filters", "8", *more, "-o")
    n_steps = stopped_in_step(None)
    command(*same, "all.st")
    n_all = len(n_steps)
    assert not (tmp_path / "all.st.partial").exists()
    n_steps = stopped_in_step(4)
    code, _, err = command(*same, "m.st")
    assert code == 130
    assert "The same command goes on from there" in err
    # Other options, or other images: this is another run.
    code, _, err = command(*same, "m.st", "--seed", "1")
    assert code == 1
    assert "To begin again, add --fresh" in " ".join(err.split())
    n_steps = stopped_in_step(None)
    code, _, err = command(*same, "m.st")
    assert code == 0, err
    assert "Going on from the checkpoints" in err
    assert len(n_steps) == n_all - 3
    np.testing.assert_equal(learned("m.st"), learned("all.st"))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["all.st", "m.st"]


def test_a_run_begins_again(command, pets, tmp_path, stopped_in_step):
    same = ("learn", pets, "--filters", "8", "--patches", "1000", "-o", "m.st")
    stopped_in_step(4)
    command(*same)
    stopped_in_step(None)
    code, _, err = command(*same, "--seed", "1", "--fresh")
    assert code == 0
    assert "Going on" not in err
    assert [p.name for p in tmp_path.iterdir()] == ["m.st"]
