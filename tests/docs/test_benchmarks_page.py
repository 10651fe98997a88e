"""The page of benchmarks is that of the results files, and says when and on what they were measured."""

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
if not (ROOT / "benchmarks").is_dir():  # tests of an installed package
    pytest.skip("benchmarks is not there", allow_module_level=True)
sys.path.insert(0, str(ROOT))
from benchmarks import machine, rst, tables  # noqa: E402
from benchmarks.sections import kmeans  # noqa: E402

MACHINE = {
    "cpu": "a processor",
    "cores": 2,
    "python": "3.11.7",
    "libraries": {"clusterica": "0.1.0"},
    "blas": ["a BLAS"],
}
TRACED = MACHINE | {"commit": "1234567", "date": "2026-01-02"}


def toys():
    """Return small reports of the benchmarks whose files may not be there."""
    fit = {"C": "one C", "solver": "newton", "chosen": True, "converged": True, "seconds": 0.5}
    slow = {"C": "auto", "solver": "l-bfgs", "chosen": False, "converged": False, "seconds": 70.0}
    linear = {
        "device": "cpu",
        "threads": 2,
        "repeats": 3,
        "once_over": 10.0,
        "gap_shape": [2000, 300],
        "gaps": [{"strength": 1000, "factor": 12.5, "largest": 30.0}],
        "rows": [{"shape": [50, 60], "classes": 10, "share_of_others": 0.4, "fits": [fit, slow]}],
    }
    coding = {
        "shape": [400, 10, 20],
        "threads": 2,
        "alpha": 1.0,
        "seconds_of_sklearn": 200.0,
        "sklearn_jobs": 2,
        "start": 9.0,
        "reached": True,
        "sklearn": [[100.0, 8.0], [200.0, 7.0]],
        "sklearn_rows": 300,
        "clusterica": [[1.0, 8.5], [2.0, 6.9]],
        "clusterica_rows": 200,
        "speed_up": 100.0,
        "speed_ups": [50.0, 100.0],
    }
    found = {"walks": 3.5, "error": 0.01, "same_bits": True, "ms": 12.0, "products_ms": 6.0}
    ica = {"gpu": "a GPU", "shape": [1000, 4], "repeats": 3, "fits": {"plain": found}}
    steps = [
        {"contender": who, "rule": "euclidean", "precision": precision, "ms": ms}
        for who, precision, ms in (
            ("clusterica", "plain", 9.0),
            ("clusterica", "float32", 3.0),
            ("clusterica", "tf32", 2.0),
            ("clusterica", "float16", 1.0),
            ("flash-kmeans", "tf32", 5.0),
            ("flash-kmeans", "float16", 1.25),
        )
    ]
    steps[1] |= {"labels_differing": 1e-5, "same_bits": True}
    products = {"float32": 4.0, "tf32": 1.5, "float16": 0.5}
    centers = {
        "gpu": "a GPU",
        "repeats": 3,
        "rows": [{"shape": [1000, 20, 50], "steps": steps, "product_ms": products}],
    }
    run = {"all": 3.0, "learn": 1.0, "encode": 1.0, "classifier": 1.0, "accuracy": 0.75}
    images = {
        "gpu": "a GPU",
        "data": True,
        "encodings": {
            "n_images": 100,
            "ms": {"plain": 9.0, "tf32": 3.0},
            "error": {"plain": 0.0, "tf32": 1e-4},
            "same_bits": {"plain": True, "tf32": False},
            "product_ms": {"float32": 5.0, "tf32": 2.0},
        },
        "runs": {"first plain tensors": [run], "plain tensors": [run, run]},
    }
    planning = {
        "shape": [1000, 4],
        "threads": 2,
        "repeats": 3,
        "products": 7e10,
        "bandwidth": 1.3e10,
        "estimates": [{"model": "RICA(4)", "n_iter": 3, "estimated": 0.85, "measured": 1.5}],
        "chunk": {"chunks": [200, 1000], "seconds": 5e-4},
    }
    stream = {
        "gpu": "a GPU",
        "shape": [1_000_000, 256],
        "budget": "8GiB",
        "copies_gb_s": {"device": 2000.0, "to device": 50.0, "to host": 40.0},
        "gb_s": {"plain": 33.3, "whiten": 22.2},
        "peak_device_bytes": 2**32,
    }
    return {
        "kmeans-gpu": (
            centers,
            [
                "1,000 x 20, k = 50",
                "2.50 x",
                "1.25 x",
                "1e-05",
                "4.00 / 1.50 / 0.50",
                "all 1 cases",
            ],
        ),
        "stream-gpu": (stream, ["1 GB", "4.0 GiB", "50 GB/s to", "40 GB/s back", "33.3 GB/s"]),
        "planning-cpu": (planning, ["``RICA(4)``, 3 iterations", "0.85 s", "1.5 s", "0.50 ms"]),
        "linear-cpu": (
            linear,
            ["50 x 60", "**0.50 s**", "70.00 s, not converged", "took 40%", "12.5"],
        ),
        "sparse-coding-cpu": (
            coding,
            ["100.0 x as fast, 50.0 to 100.0 x to", "200.0 s", "7.000", "2.0 s", "6.900"],
        ),
        "ica-gpu": (ica, ["1,000 rows of 4", "12 ms", "6 ms", "3.5", "0.0100", "yes"]),
        "images-gpu": (images, ["100 images of CIFAR-10", "5.0 ms", "1.0e-04", "no", "75.0%"]),
    }


@pytest.mark.parametrize("name", toys())
def test_sections_have_their_figures(name):
    report, expected = toys()[name]
    text = "\n".join(tables.SECTIONS[name](report | {"machine": TRACED}))
    for one in [*expected, "Measured at commit 1234567 on 2026-01-02, on a processor, 2 cores"]:
        assert one in text
    assert "first" not in text.split("list-table")[-1]


def test_old_files_say_that_they_are_old():
    assert rst.when({"machine": MACHINE}) == "before commits were recorded"
    assert rst.when({"machine": MACHINE | {"commit": "1234567"}}) == "at commit 1234567"
    assert rst.when({"machine": TRACED | {"commit": None}}) == "at commit unknown on 2026-01-02"


def test_a_busy_machine_is_told():
    quiet, busy = (
        rst.provenance({"machine": TRACED, "share_of_others": share})[0] for share in (0.02, 0.3)
    )
    assert "Other programs" not in quiet
    assert busy.endswith("**Other programs took 30% of the processor meanwhile.**")


def test_kernels_of_an_older_processor_are_told():
    wide = TRACED | {"cpu": "a processor, AVX-512", "blas": ["openblas 0.3 SkylakeX"]}
    assert rst.slow_blas({"machine": wide}) == ""
    assert "Haswell" in rst.slow_blas({"machine": wide | {"blas": ["openblas 0.3 Haswell"]}})
    narrow = wide | {"cpu": "a processor, no AVX-512", "blas": ["openblas 0.3 Haswell"]}
    assert rst.slow_blas({"machine": narrow}) == ""


@pytest.mark.parametrize(
    ("changes", "kept"),
    [
        ({}, True),
        ({"date": "2026-01-01"}, True),
        ({"commit": "7654321"}, False),
        ({"cpu": "another"}, False),
    ],
)
def test_parts_are_added_to_those_of_the_same_code_and_machine(
    changes, kept, tmp_path, monkeypatch
):
    monkeypatch.setattr(machine, "describe", lambda: TRACED)
    target = tmp_path / "file.json"
    assert machine.stored(target) == {}
    report = {"machine": TRACED | changes, "rows": [1]}
    target.write_text(json.dumps(report))
    assert machine.stored(target) == (report if kept else {})


@pytest.mark.parametrize("commit", [None, "1234567-dirty"])
def test_nothing_is_added_where_the_code_is_not_known(commit, tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "describe", lambda: TRACED | {"commit": commit})
    target = tmp_path / "file.json"
    target.write_text(json.dumps({"machine": TRACED | {"commit": commit}, "rows": [1]}))
    assert machine.stored(target) == {}


def test_what_is_not_measured_is_said():
    missing = tables._missing({name for name in tables.SECTIONS if name != "linear-gpu"})
    assert "``linear-gpu``" in missing[0]
    assert "linear-cpu" not in missing[0]
    assert tables._missing(tables.SECTIONS) == []


def test_the_readme_has_a_sentence_on_a_gpu():
    text = kmeans.readme_gpu(toys()["kmeans-gpu"][0])
    assert "1,000 x 20 rows with 50 centres takes 3.00 ms" in text
    assert (
        "2.5 to 2.5 times in TF32 and 1.2 to 1.2 times in float16 as fast as in flash-kmeans"
        in text
    )


def test_a_peer_that_was_not_installed_has_no_time():
    report = json.loads((ROOT / "benchmarks" / "results" / "kmeans-cpu.json").read_text())
    for row in report["rows"]:
        row["fits"] = [fit for fit in row["fits"] if not fit["library"].startswith("faiss")]
    rows = [line for line in kmeans.readme_table(report).splitlines() if "k = " in line]
    assert len(rows) == len(report["rows"])
    assert all(line.endswith("|  |") for line in rows)


def test_the_page_and_the_readme_are_those_of_the_files(tmp_path, monkeypatch):
    """If this fails after a benchmark, run ``python -m benchmarks.tables``."""
    before = {name: getattr(tables, name) for name in ("PAGE", "README")}
    for name, path in before.items():
        (tmp_path / name).write_text(path.read_text())
        monkeypatch.setattr(tables, name, tmp_path / name)
    tables.main()
    for name, path in before.items():
        assert (tmp_path / name).read_text() == path.read_text()
