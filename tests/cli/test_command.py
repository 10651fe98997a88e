"""The command, run in this process: what it prints, what it writes, how it ends."""

import io
import json
import re
import subprocess
import sys

import numpy as np
import pytest
from rich.console import Console

import clusterica
from clusterica.__main__ import main as start
from clusterica.cli import _console
from clusterica.cli._console import show_table
from clusterica.images import ImageFeatures

COMMANDS = (
    *("learn", "train", "features", "predict", "separate", "cluster"),
    *("report", "info", "download", "bench", "demo", "reproduce"),
)


def test_version(command):
    code, out, _ = command("--version")
    assert code == 0
    assert out.strip() == clusterica.__version__


@pytest.mark.parametrize("words", [(), ("--help",), ("-h",)])
def test_help(command, words):
    code, out, _ = command(*words)
    assert code == 0
    for name in COMMANDS:
        assert f" {name} " in out
    assert "--install-completion" in out


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_each_command(command, name):
    code, out, _ = command(name, "--help")
    assert code == 0
    assert out.startswith(f"Usage: clusterica {name}")
    # Every option is described.
    lines = [line for line in out.splitlines() if " --" in line and "Usage" not in line]
    assert all(len(line.replace("│", "").split()) > 2 for line in lines)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("learn", "photos"), "--output or -o needs a value. See: clusterica learn --help"),
        (("predict", "m.st"), "IMAGES is missing. See: clusterica predict --help"),
        (("info", "m.st", "n.st"), "nothing to do with n.st. See: clusterica info --help"),
        (("info", "m.st", "--jsn"), "Unknown option: --jsn. Did you mean --json?"),
        (("lern",), 'Did you mean "learn"?'),
        (("cluster", "[red]", "--method", "x", "-o", "l.csv"), 'Choose from: "k-means"'),
    ],
)
def test_wrong_arguments(command, words, message):
    code, out, err = command(*words)
    assert (code, out) == (2, "")
    assert err.startswith("Error: ")
    assert message in err
    assert err.count("\n") == 1


def test_ctrl_c_while_it_starts(monkeypatch):
    class Interrupted:
        def find_spec(self, name, path, target=None):
            if name == "clusterica.cli":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "clusterica.cli")
    monkeypatch.setattr(sys, "meta_path", [Interrupted(), *sys.meta_path])
    with pytest.raises(SystemExit) as stopped:
        start()
    assert stopped.value.code == 130


def test_help_of_a_command(command):
    code, out, _ = command("reproduce", "--help")
    assert code == 0
    for option in ("--list", "--quick", "--output", "--seed", "--data", "--device"):
        assert option in out
    assert "--no-quick" not in out


def test_list(command):
    code, out, _ = command("reproduce", "--list")
    assert code == 0
    for text in ("P1-fig1", "P1-fig2", "Coates & Ng 2012", "CIFAR-10, a GPU", "< 1 min"):
        assert text in out


def test_list_has_a_line_for_each(command, monkeypatch):
    """In a narrow terminal titles are cut, and names, times and needs are not."""
    monkeypatch.setenv("COLUMNS", "80")
    _, out, _ = command("reproduce", "--list")
    lines = [line for line in out.splitlines() if line.startswith("P")]
    entries = clusterica.experiments.available()
    assert len(lines) == len(entries)
    for line, entry in zip(lines, entries, strict=True):
        assert line.split()[0] == entry.name
        assert line.rstrip().endswith(entry.needs or "min")
        assert len(line) <= 80


def test_unknown_experiment(command):
    code, out, err = command("reproduce", "P1-fi1")
    assert code == 2
    assert out == ""
    assert "no experiment 'P1-fi1'. Did you mean P1-fig1" in err
    assert "Traceback" not in err


def test_no_name(command):
    code, _, err = command("reproduce")
    assert code == 2
    assert "--list" in err


@pytest.mark.parametrize(
    "words",
    [
        ("nonsense",),
        ("reproduce", "P1-fig2", "--seed", "-1"),
        ("learn", "digits"),
        ("learn", "digits", "-o", "m.st", "--filters", "0"),
        ("train", "digits", "-o", "m.st", "--recipe", "slow"),
        ("train", "digits", "-o", "m.st", "--validation", "1"),
        ("cluster", "table.csv", "-o", "labels.csv", "--method", "magic"),
        ("download",),
    ],
)
def test_wrong_words(command, words):
    code, out, err = command(*words)
    assert code == 2
    assert out == ""
    assert "Traceback" not in err


def test_output_that_is_a_file(command, tmp_path):
    (tmp_path / "taken").write_text("")
    code, _, err = command("demo", "--quick", "--output", "taken")
    assert code == 1
    assert "cannot create taken" in err
    assert "with -o" in err


def test_output_that_takes_no_files(command, monkeypatch):
    """Noticed before the work, not after it."""

    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("clusterica.cli._files.TemporaryFile", refuse)
    monkeypatch.setattr("clusterica.cli._reproduce.run", lambda *a, **k: pytest.fail("it ran"))
    code, _, err = command("reproduce", "P1-fig1", "--quick")
    assert code == 1
    assert "cannot write to clusterica-results: Permission denied. Choose another folder" in err


@pytest.mark.parametrize("words", [("--data", "."), ("--device", "cpu")])
def test_options_that_an_experiment_does_not_use(command, words):
    code, _, err = command("reproduce", "P2-iris", "--quick", *words)
    assert code == 2
    assert f"P2-iris does not use {words[0]}; leave it out." in err


def test_a_device_that_is_not_there(command):
    pytest.importorskip("torch")
    code, _, err = command("reproduce", "P1-table1", "--quick", "--device", "bogus")
    assert code == 1
    assert "bogus" in err
    assert "Traceback" not in err


@pytest.mark.parametrize("kind", [ValueError, ImportError, FileNotFoundError])
def test_errors_take_one_line(command, monkeypatch, kind):
    def fail(*args, **kwargs):
        raise kind("the file is not the official one")

    monkeypatch.setattr("clusterica.cli._reproduce.run", fail)
    code, _, err = command("reproduce", "P1-table1", "--quick")
    assert code == 1
    assert "P1-table1 stopped: the file is not the official one" in err


def test_missing_matplotlib(command, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    code, _, err = command("demo", "--quick")
    assert code == 1
    assert err.count("\n") == 1
    assert 'pip install "clusterica[plot]"' in err


def test_reproduce(command, tmp_path):
    pytest.importorskip("matplotlib")
    code, out, _ = command("reproduce", "p1-fig2", "--quick", "--output", "res", "--seed", "3")
    assert code == 0
    record = json.loads((tmp_path / "res" / "P1-fig2.json").read_text(encoding="utf-8"))
    assert record["made"]["seed"] == 3
    assert record["quick"] is True
    for row in record["rows"]:
        assert row[0] in out
        assert f"{row[-1]:.3g}" in out
    assert str(tmp_path / "res" / "P1-fig2.png") in out
    page = (tmp_path / "res" / "P1-fig2.html").read_text(encoding="utf-8")
    for text in (
        "The claim",
        "data:image/png;base64,",
        "<table",
        "quick run",
        "reproduce P1-fig2",
    ):
        assert text in page


def test_progress_in_a_terminal_only(command, monkeypatch):
    pytest.importorskip("matplotlib")
    _, plain, _ = command("reproduce", "P1-fig2", "--quick")
    assert "Draws of two sources" not in plain
    monkeypatch.setenv("FORCE_COLOR", "1")
    _, colored, _ = command("reproduce", "P1-fig2", "--quick")
    assert "Draws of two sources" in colored


def test_demo(command, tmp_path):
    pytest.importorskip("matplotlib")
    code, out, err = command("demo", "--quick")
    assert code == 0
    assert err == ""
    page = tmp_path / "clusterica-demo" / "index.html"
    assert out.strip().endswith(str(page))
    text = page.read_text(encoding="utf-8")
    assert text.count('<div class="drawing') == 2
    assert text.count('<section class="filter-grid"') == 2
    for heading in ("two photographs", "handwritten digits", "mixed signals", "heavy-tailed data"):
        assert re.search(f"<h2>[^<]*{heading}</h2>", text)
    correlation = float(re.search(r"<dd>(0\.\d+|1\.000)</dd>", text)[1])
    assert correlation > 0.99
    assert "clusterica reproduce P1-fig1 --quick" in text


def test_interrupt(command, monkeypatch):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr("clusterica.cli._reproduce.list_experiments", interrupted)
    code, _, err = command("reproduce", "--list")
    assert code == 130
    assert "Traceback" not in err


def test_module_runs_the_command():
    done = subprocess.run(
        [sys.executable, "-m", "clusterica", "--version"], capture_output=True, text=True
    )
    assert done.returncode == 0
    assert done.stdout.strip() == clusterica.__version__


@pytest.mark.parametrize("width", [30, 80, 200])
def test_tables_break_no_word(width):
    """Eight columns of short texts, of which rich would leave some without width."""
    rows = [
        (
            "sub-ICA, 1 outlier along it",
            "negentropy",
            "“similar results”",
            -1.45,
            "50 / 100",
            "yes",
        ),
        ("super-ICA", "exp", "—", 0.858, "145 / 5", "in 69 of 100 draws"),
    ]
    rows = [(*row, "184 of 200", "in 9 of 10 draws") for row in rows]
    columns = (
        "Direction",
        "Contrast",
        "The paper [P2]",
        "Kurtosis",
        "Clusters",
        "Setosa",
        "Starts",
        "",
    )
    console = Console(width=width, file=io.StringIO())
    show_table(console, rows, columns)
    out = console.file.getvalue()
    words = set(out.replace("│", " ").replace("┃", " ").split())
    for text in (*columns, *(value for row in rows for value in row)):
        assert set(str(text).split()) <= words
    lengths = {len(line) for line in out.splitlines()}
    assert len(lengths) == 1
    if width >= 80:
        assert max(lengths) <= width


def test_the_progress_of_a_fit_has_a_rate_and_ends_full(monkeypatch, rng):
    """All that is done is shown, of inner estimators too; nothing is kept for later."""
    screen = io.StringIO()
    monkeypatch.setattr(
        _console, "Console", lambda **_: Console(file=screen, force_terminal=True, width=100)
    )
    bars = _console.FitProgress()
    images = rng.integers(0, 255, (20, 12, 12)).astype(np.uint8)
    model = ImageFeatures(4, patch_size=4, n_patches=200, random_state=0).set_callbacks(bars)
    model.fit(images)
    text = screen.getvalue()
    assert "KMeans" in text
    assert re.search(r"\d/s", text)
    assert vars(bars) == {}
