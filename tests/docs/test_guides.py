"""The code and the commands of the README and the guide run as they are printed, page by page."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.io import wavfile
from sklearn.exceptions import ConvergenceWarning

import clusterica
from clusterica import datasets

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "guide"
# Pages that need neither files of one's own nor a GPU.
PAGES = (
    "../architecture",
    "../index",
    "../quickstart",
    "clusters",
    "dictionaries",
    "encoders",
    "extend",
    "figures",
    "files",
    "kernel_rica",
    "linear",
    "networks",
    "report",
    "rica",
    "scaling",
    "sources",
    "text",
)
# Pages with files that a reader has; the test has small ones of the same names.
WITH_FILES = ("../../README", "../trust", "datasets", "images", "rows")
# The first needs a cluster of machines, and the second has a test of its own.
NOT_RUN = ("clusters_of_machines", "command")
# What fragments of a page take for granted.
KNOWN = {
    "../trust": """
from clusterica.cluster import KMeans
X, model = np.load("patches.npy"), KMeans(4, random_state=0)
""",
    "datasets": """
from clusterica.datasets import load_stl10
from clusterica.images import ImageFeatures
from clusterica.linear import LinearSVC
from sklearn.pipeline import make_pipeline
model, scores = make_pipeline(ImageFeatures(4, n_patches=100), LinearSVC()), []
""",
    "rows": """
import h5py
from clusterica.cluster import GainShapeKMeans, KMeans, SphericalKMeans
from clusterica.linear import LinearSVC
from clusterica.preprocessing import ContrastNormalizer, Whitener
from sklearn.pipeline import make_pipeline
X_first = X_second = X = np.load("patches.npy")
y_first = y_second = np.arange(len(X)) % 2
kmeans, whitener = KMeans(4), Whitener().fit(X)
""",
}


def code_blocks(page):
    """Return the Python code of a page, without what needs a GPU."""
    path = GUIDE / f"{page}.md" if page.endswith("README") else GUIDE / f"{page}.rst"
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    indented = re.findall(r"^\.\. code-block:: python\n\n((?:   .*\n|\n)+)", text, re.MULTILINE)
    blocks = [re.sub(r"^   ", "", block, flags=re.MULTILINE) for block in indented]
    return [block for block in blocks if "cuda" not in block and "gpu" not in block]


def run(page, names):
    blocks = code_blocks(page)
    assert blocks
    if any("import torch" in block for block in blocks):
        pytest.importorskip("torch")
    for block in blocks:
        exec(compile(block, page, "exec"), names)


def test_every_page_with_code_is_run():
    found = [path.stem for path in GUIDE.glob("*.rst") if code_blocks(path.stem)]
    found += [
        f"../{path.stem}" for path in GUIDE.parent.glob("*.rst") if code_blocks(f"../{path.stem}")
    ]
    assert set(found) <= {*PAGES, *WITH_FILES, *NOT_RUN}


@pytest.fixture
def own_files(tmp_path, monkeypatch, keep_config):
    """Small files of a reader: arrays, tables, images in folders, and data sets that can be downloaded."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng()
    # As few columns as can be, and more rows than the pages ask for clusters.
    X = rng.normal(size=(1700, 4)).astype(np.float32)
    np.save("patches.npy", X)
    with pytest.importorskip("h5py").File("patches.h5", "w") as file:
        file["X"] = X
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rows = arrow.FixedSizeListArray.from_arrays(X.ravel(), 4)
    Path("shards").mkdir()
    parquet.write_table(arrow.table({"embedding": rows}), "shards/part.parquet")
    pixels = rng.integers(0, 256, (16, 16, 16, 3), dtype=np.uint8)
    for i, image in enumerate(pixels):
        file = Path(("pets/cat", "pets/dog", "scenes")[i % 3], f"{i}.png")
        file.parent.mkdir(parents=True, exist_ok=True)
        pytest.importorskip("PIL.Image").fromarray(image).save(file)

    def load(path=None, *, split="train", download=False):
        names = ["cat", "frog"]
        folds = [np.arange(8), np.arange(8, 16)]
        return datasets.ImageSet(pixels, np.arange(16) % 2, class_names=names, folds=folds)

    monkeypatch.setattr(datasets, "load_cifar10", load)
    monkeypatch.setattr(datasets, "load_stl10", load)


@pytest.mark.parametrize("page", PAGES)
# The guide says itself that a fit with few steps warns.
@pytest.mark.filterwarnings("error", f"ignore::{ConvergenceWarning.__module__}.ConvergenceWarning")
def test_code_runs_as_printed(page, tmp_path, monkeypatch):
    np.save(tmp_path / "patches.npy", np.random.default_rng().normal(size=(1100, 4)))
    monkeypatch.chdir(tmp_path)
    run(page, {})


@pytest.mark.parametrize("page", WITH_FILES)
@pytest.mark.filterwarnings("ignore")  # small data is too small for some settings
def test_code_runs_on_own_files(page, own_files):
    names = {"np": np, "clusterica": clusterica}
    exec(KNOWN.get(page, ""), names)
    run(page, names)


def call(line, folder):
    """Run a command as it is printed; what it is to write is there afterwards."""
    done = subprocess.run(
        [sys.executable, "-m", "clusterica", *shlex.split(line, comments=True)],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "100"},
    )
    assert done.returncode == 0, f"{line}: {done.stderr}"
    output = re.search(r"-o (\S+)", line)
    assert output is None or (folder / output[1]).exists(), line


@pytest.mark.slow
def test_commands_run_as_printed(tmp_path, monkeypatch):
    text = (GUIDE / "command.rst").read_text(encoding="utf-8")
    blocks = re.findall(
        r"^\.\. code-block:: (python|console)\n\n((?:   .*\n|\n)+)", text, re.MULTILINE
    )
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for kind, block in blocks:
        if kind == "python":
            exec(compile(re.sub(r"^   ", "", block, flags=re.MULTILINE), "command", "exec"), names)
            continue
        for line in re.findall(r"^   \$ clusterica (.+)$", block, re.MULTILINE):
            call(line, tmp_path)


@pytest.mark.slow
def test_commands_of_the_readme_run_as_printed(tmp_path):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```console\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    lines = re.findall(r"^clusterica (.+)$", "".join(blocks), re.MULTILINE)
    assert len(lines) > 10
    rng = np.random.default_rng()
    X = rng.laplace(size=(8000, 2)) @ rng.normal(size=(2, 2))
    wavfile.write(tmp_path / "recording.wav", 8000, (3000 * X).astype(np.int16))
    np.savetxt(tmp_path / "table.csv", X[:200], delimiter=",", header="a,b", comments="")
    for line in lines:
        if not line.startswith("download"):  # no network in tests
            call(line, tmp_path)
