"""clusterica features and predict: their files, and that a stopped run goes on to the same bytes."""

import csv
import json
import os
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import clusterica
from clusterica.cli._files import SINKS, Partial
from clusterica.cli.inputs.images import open_images
from clusterica.cluster import KMeans
from clusterica.images import ImageFeatures

# Runs the command, and kills it when a block is recorded, or just before that.
KILLED = """
import signal, sys
from clusterica.cli import main
from clusterica.cli._files import Partial

# A process that was started in the background may have inherited that Ctrl-C is ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)

record, count = Partial.record, 0

def killed(self, **state):
    global count
    count += 1
    if count == 2 and sys.argv[1] == "before":
        signal.raise_signal(getattr(signal, sys.argv[2]))
    record(self, **state)
    if count == 2:
        signal.raise_signal(getattr(signal, sys.argv[2]))

Partial.record = killed
main(sys.argv[3:])
"""


def content(path):
    """All bytes of a file or folder."""
    if path.is_file():
        return path.read_bytes()
    return {p.relative_to(path): p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()}


def read_features(path):
    if path.suffix == ".npy":
        return np.load(path)
    if path.suffix == ".zarr":
        return pytest.importorskip("zarr").open_array(path, mode="r")[:]
    table = pytest.importorskip("pyarrow.parquet").read_table(path)
    return np.stack(table.column("features").to_numpy())


@pytest.mark.parametrize(
    ("suffix", "block"),
    [("npy", ()), *((suffix, ("--block", "7")) for suffix in ("npy", "zarr", "parquet"))],
)
def test_features(command, models, pets, tmp_path, suffix, block):
    for name in ("features.st", "classes.st"):
        output = tmp_path / f"{name}.{suffix}"
        code, out, err = command("features", models / name, pets, "-o", output, *block)
        assert code == 0, err
        assert out.strip() == str(output)
        model, images = clusterica.load(models / name), open_images(str(pets)).read()
        model = model if name == "features.st" else model.networks_[0]
        np.testing.assert_allclose(read_features(output), model.transform(images), rtol=1e-5)
        assert not output.with_name(f"{output.name}.partial").exists()
    names = tmp_path / f"features.st.{suffix}.names.txt"
    if suffix == "parquet":
        table = pytest.importorskip("pyarrow.parquet").read_table(output)
        assert table.column("file").to_pylist() == list(open_images(str(pets)).names)
    else:
        assert names.read_text().split() == list(open_images(str(pets)).names)


def test_predict(command, models, pets):
    code, out, err = command("predict", models / "classes.st", pets, "--block", "7")
    assert code == 0
    assert "40 of 40 correct (100.00 %). The model was trained on these images." in err
    rows = list(csv.DictReader(out.splitlines()))
    assert [row["file"] for row in rows] == list(open_images(str(pets)).names)
    assert [row["class"] for row in rows] == open_images(str(pets)).labels.tolist()
    code, lines, _ = command("predict", models / "classes.st", pets, "--json")
    assert [json.loads(line) for line in lines.splitlines()] == rows
    for name in ("out.csv", "out.jsonl"):
        code, printed, _ = command(
            "predict", models / "classes.st", pets, "-o", name, "--block", "9"
        )
        assert (code, printed) == (0, f"{name}\n")
        with open(name, encoding="utf-8") as file:
            assert file.read() == (out if name == "out.csv" else lines)


def test_predict_for_a_program(command, models, pets, tmp_path):
    words = ("predict", models / "classes.st")
    code, out, _ = command(*words, pets, "-o", "p.csv", "--json")
    assert code == 0
    assert json.loads(out) == {"file": "p.csv", "n": 40, "correct": 40, "errors": {}}
    assert (tmp_path / "p.csv").read_text().startswith("file,class\n")
    code, out, _ = command(*words, pets / "flat", "-o", "p.csv", "--json")
    assert json.loads(out) == {"file": "p.csv", "n": 20, "errors": {}}


def test_predict_one_image_of_another_size(command, models, pets, tmp_path):
    image = pytest.importorskip("PIL.Image")
    with image.open(pets / "flat" / "03.png") as picture:
        picture.convert("RGB").resize((30, 30)).save(tmp_path / "large.png")
    code, out, _ = command("predict", models / "classes.st", "large.png")
    assert code == 0
    assert out == "file,class\nlarge.png,flat\n"


@pytest.fixture
def sure(pets, tmp_path):
    """A model with probabilities, and its images."""
    source = open_images(str(pets))
    steps = ImageFeatures(8, patch_size=4, n_patches=500, random_state=0), LogisticRegression()
    model = make_pipeline(*steps).fit(source.read(), source.labels)
    clusterica.save(model, tmp_path / "sure.st")
    return model, source


def test_probabilities(command, sure, pets):
    model, source = sure
    truth = model.predict_proba(source.read())
    code, out, _ = command("predict", "sure.st", pets, "--probabilities", "--block", "11")
    assert code == 0
    rows = list(csv.DictReader(out.splitlines()))
    assert list(rows[0]) == ["file", "class", *model.classes_]
    found = [[float(row[name]) for name in model.classes_] for row in rows]
    np.testing.assert_allclose(found, truth, rtol=1e-4, atol=1e-6)
    _, out, _ = command("predict", "sure.st", pets, "--probabilities", "--json")
    first = json.loads(out.splitlines()[0])
    assert list(first["probabilities"]) == model.classes_.tolist()
    assert first["probabilities"]["flat"] == pytest.approx(truth[0, 0], rel=1e-4)


@pytest.mark.parametrize(
    ("name", "when"),
    [
        *((name, "before") for name in ("f.npy", "f.zarr", "f.parquet", "p.csv")),
        *((name, "after") for name in ("f.parquet", "p.jsonl")),
    ],
)
def test_a_killed_run_goes_on(command, models, pets, tmp_path, name, when):
    verb = "features" if name[0] == "f" else "predict"
    words = [verb, str(models / "classes.st"), str(pets), "--block", "9", "-o"]
    assert command(*words, f"whole-{name}")[0] == 0
    start = [sys.executable, "-c", KILLED, when, "SIGKILL"]
    done = subprocess.run([*start, *words, name], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert not (tmp_path / name).exists()
    code, _, err = command(*words, name)
    assert code == 0
    assert f"Resuming after {9 if when == 'before' else 18} images." in err
    assert content(tmp_path / name) == content(tmp_path / f"whole-{name}")
    assert not (tmp_path / f"{name}.partial").exists()


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="needs Linux")
@pytest.mark.parametrize("suffix", [".zarr", ".parquet"])
def test_features_are_on_the_disk_before_they_are_recorded(tmp_path, monkeypatch, suffix):
    pytest.importorskip({".zarr": "zarr", ".parquet": "pyarrow"}[suffix])
    synced, fsync = set(), os.fsync

    def noted(descriptor):
        synced.add(os.stat(descriptor).st_ino)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    partial = Partial(tmp_path / f"f{suffix}", key="a", fresh=False)
    sink = SINKS[suffix](partial, [str(i) for i in range(4)], 2)
    for start, value in ((0, 1.0), (2, 0.0)):  # Zarr stores no zeros
        sink.write(start, np.full((2, 3), value, np.float32))
        assert [p for p in partial.data.rglob("*") if p.stat().st_ino not in synced] == []
    partial.finish()
    assert read_features(tmp_path / f"f{suffix}").tolist() == [[1.0] * 3] * 2 + [[0.0] * 3] * 2


def test_ctrl_c_says_how_to_go_on(models, pets, tmp_path):
    words = ["predict", str(models / "classes.st"), str(pets), "--block", "9", "-o", "p.csv"]
    start = [sys.executable, "-c", KILLED, "after", "SIGINT"]
    done = subprocess.run([*start, *words], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 130
    assert "18 of 40 images are done. Run the same command again to resume." in done.stderr
    assert "Traceback" not in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["p.csv.partial"]


def test_nothing_is_left_where_nothing_is_done(command, models, pets, tmp_path):
    shutil.copytree(pets, tmp_path / "own")
    (tmp_path / "own" / "flat" / "00.png").write_text("no picture")
    code, _, err = command("predict", models / "classes.st", "own", "-o", "p.csv", "--block", "9")
    assert code == 1
    assert "00.png can't be read as an image" in err
    assert [p.name for p in tmp_path.iterdir()] == ["own"]


def test_only_the_same_run_goes_on(command, models, pets, tmp_path, monkeypatch):
    own = tmp_path / "own"
    shutil.copytree(pets, own)
    words = ["features", str(models / "features.st"), "own", "--block", "9", "-o", "f.npy"]
    start = [sys.executable, "-c", KILLED, "after", "SIGKILL"]
    subprocess.run([*start, *words], cwd=tmp_path, capture_output=True)
    others = {
        "another model": [words[0], str(models / "classes.st"), *words[2:]],
        "another block": [*words[:4], "8", *words[5:]],
    }
    for other in others.values():
        code, _, err = command(*other)
        assert code == 1
        assert "f.npy.partial was left by a run with another model" in err
    with monkeypatch.context() as patch:
        patch.setattr("clusterica.cli._job.__version__", "0.0.1")
        assert command(*words)[0] == 1
    (own / "flat" / "00.png").unlink()
    code, _, err = command(*words)
    assert code == 1
    assert "--fresh" in err
    code, _, err = command(*words, "--fresh")
    assert code == 0
    assert "Going on" not in err
    assert np.load(tmp_path / "f.npy").shape[0] == 39


def test_a_reader_that_has_enough(models, pets, tmp_path):
    """``clusterica predict ... | head`` ends without an error."""
    words = [sys.executable, "-m", "clusterica", "predict", str(models / "classes.st"), str(pets)]
    with subprocess.Popen(
        [*words, "--block", "1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        process.stdout.close()
        err = process.stderr.read()
    assert process.returncode == 0
    assert "Error" not in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("features", "{m}/none.st", "{p}", "-o", "f.npy"), "there is no model file"),
        (("features", "{p}", "{p}", "-o", "f.npy"), "is a folder; give the name of a model file"),
        (("features", "notes.txt", "{p}", "-o", "f.npy"), "not a model file of clusterica"),
        (
            ("features", "rows.st", "{p}", "-o", "f.npy"),
            "holds KMeans, which takes rows of numbers",
        ),
        (("features", "{m}/features.st", "{p}", "-o", "f.txt"), ".npy or .zarr or .parquet"),
        (
            ("features", "{m}/features.st", "there.zarr", "-o", "there.zarr"),
            "what the command reads",
        ),
        (
            ("features", "{m}/features.st", "{p}", "-o", "there.zarr"),
            "there.zarr exists. Add --fresh",
        ),
        (("features", "{m}/features.st", "none", "-o", "f.npy"), "there is no file or folder none"),
        (("features", "{m}/classes.st", "small.npy", "-o", "f.npy"), "are not scaled"),
        (("predict", "{m}/features.st", "{p}"), "predicts no classes. Train a model"),
        (("predict", "{m}/classes.st", "{p}", "-o", "p.txt"), "must end in .csv or .jsonl"),
    ],
)
def test_errors_say_what_to_do(command, models, pets, tmp_path, words, message):
    (tmp_path / "notes.txt").write_text("notes")
    (tmp_path / "there.zarr").mkdir()
    np.save(tmp_path / "small.npy", np.zeros((3, 5, 5), np.uint8))
    rows = np.random.default_rng().normal(size=(20, 3))
    clusterica.save(KMeans(2, random_state=0).fit(rows), tmp_path / "rows.st")
    code, out, err = command(*(word.format(m=models, p=pets) for word in words))
    assert code in (1, 2)
    assert out == ""
    assert message in err
    assert err.count("\n") == 1


def test_missing_packages(command, models, pets, monkeypatch):
    for package, suffix in (("zarr", "zarr"), ("pyarrow", "parquet")):
        monkeypatch.setitem(sys.modules, package, None)
        code, _, err = command("features", models / "features.st", pets, "-o", f"f.{suffix}")
        assert code == 1
        assert f"needs {package}, which is not installed" in err
        assert "pip install 'clusterica[files]'" in err
        assert os.listdir() == []
