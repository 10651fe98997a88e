"""clusterica report, info, download, bench, and the completion of the shell."""

import json
import subprocess
import sys

import numpy as np
import pytest

import clusterica
from clusterica.cli import _models
from clusterica.cluster import KMeans
from clusterica.report import Page


def test_info(command, models):
    code, out, _ = command("info", models / "classes.st")
    assert code == 0
    for text in ("ImageClassifier", "flat, upright", "40 images of", "100.00 % of 8 held-out"):
        assert text in out
    assert f"clusterica {clusterica.__version__}" in out
    code, out, _ = command("info", models / "features.st", "--json")
    facts = json.loads(out)
    assert facts["kind"] == "ImageFeatures"
    assert facts["settings"]["n_filters"] == 8
    assert facts["features"] == 64
    assert facts["data"]["n"] == 40
    assert facts["bytes"] == (models / "features.st").stat().st_size


def test_info_of_a_model_without_summary(command, tmp_path):
    X = np.random.default_rng().normal(size=(30, 2))
    clusterica.save(KMeans(2, random_state=0).fit(X), tmp_path / "k.st")
    code, out, _ = command("info", "k.st")
    assert code == 0
    assert "KMeans" in out
    assert "accuracy" not in out


@pytest.mark.parametrize("name", ["info", "report"])
def test_models_that_are_not_there(command, tmp_path, name):
    code, out, err = command(name, "none.st")
    assert (code, out) == (1, "")
    assert "there is no model file none.st" in err
    assert list(tmp_path.iterdir()) == []


def test_report(command, models, tmp_path, monkeypatch):
    def model_page(model, summary=None):
        page = Page("A model")
        page.add_text(f"{type(model).__name__} of {summary['data']['n']} images")
        return page

    monkeypatch.setattr(clusterica.report, "model_page", model_page, raising=False)
    code, out, _ = command("report", models / "features.st", "-o", "page.html")
    assert code == 0
    assert out.strip() == str(tmp_path / "page.html")
    assert "ImageFeatures of 40 images" in (tmp_path / "page.html").read_text()
    code, out, _ = command("report", models / "features.st", "-o", "page.html", "--json")
    summary = clusterica.io.load_summary(models / "features.st")
    advice = clusterica.report.advise(summary)
    assert json.loads(out) == {"file": "page.html", "advice": advice}
    code, _, err = command("report", models / "features.st", "-o", "page.pdf")
    assert code == 2
    assert "page.pdf must end in .html" in err


def test_list_of_data_sets(command, tmp_path):
    (tmp_path / "mnist").mkdir()
    code, out, _ = command("download", "--list", "--data", tmp_path)
    assert code == 0
    there = {line.split()[0]: line.split()[-1] for line in out.splitlines()[1:6]}
    assert there == dict.fromkeys(_models.DOWNLOADS, "no") | {"mnist": "yes"}
    _, out, _ = command("download", "--list", "--data", tmp_path, "--json")
    assert json.loads(out)["folder"] == str(tmp_path)


def test_download(command, monkeypatch, tmp_path):
    digits, calls = clusterica.datasets.load_digits_images(), []

    def load(path, **settings):
        calls.append((path, settings))
        return digits

    monkeypatch.setattr("clusterica.datasets.load_mnist", load)
    code, out, err = command("download", "MNIST", "--data", tmp_path)
    assert code == 0
    assert out.strip() == str(tmp_path)
    assert "1,797 images" in err
    assert calls == [(tmp_path, {"split": "train", "download": True})]


def test_download_without_a_network(command, monkeypatch, tmp_path):
    def load(path, **settings):
        raise ConnectionError("no network")

    monkeypatch.setattr("clusterica.datasets.load_mnist", load)
    code, _, err = command("download", "mnist", "--data", tmp_path)
    assert code == 1
    assert "mnist could not be downloaded: no network" in err


def test_unknown_data_set(command):
    code, _, err = command("download", "cifar")
    assert code == 2
    assert "there is no data set cifar. They are cifar10, stl10" in err


def test_bench(command, monkeypatch):
    measure = _models.measure
    monkeypatch.setattr(_models, "measure", lambda: measure(n_rows=500, n_images=4, repeats=1))
    code, out, _ = command("bench", "--json")
    assert code == 0
    facts = json.loads(out)
    assert facts["speed_up"] == facts["sklearn_kmeans_seconds"] / facts["kmeans_seconds"]
    assert min(facts["product_gflops"], facts["images_per_second"]) > 0
    code, out, _ = command("bench")
    assert code == 0
    assert "images/s" in out


def test_completion(tmp_path, monkeypatch):
    """What --install-completion writes knows the commands."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SHELL", "/bin/bash")
    words = [sys.executable, "-m", "clusterica", "--install-completion", "--shell", "bash"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    scripts = "".join(p.read_text() for p in tmp_path.rglob("*") if p.is_file())
    for name in ("learn", "separate", "--patch-size"):
        assert name in scripts


def test_help_imports_nothing_heavy():
    """The help answers at once. (pandas and pyarrow are imported by scikit-learn, where they are there.)"""
    code = (
        "import sys\nfrom clusterica.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "heavy = {'numba', 'matplotlib', 'torch', 'dask', 'PIL', 'zarr'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.strip() == "[]"


def test_errors_can_show_where_they_come_from(command, monkeypatch):
    monkeypatch.setenv("CLUSTERICA_TRACEBACK", "1")
    with pytest.raises(FileNotFoundError):
        command("info", "none.st")
