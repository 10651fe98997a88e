"""clusterica separate and cluster: tables and signals in all formats, and what is wrong with some."""

import csv
import json
import sys

import numpy as np
import pytest
from scipy import sparse
from scipy.io import wavfile
from sklearn.datasets import load_iris
from sklearn.metrics import adjusted_rand_score

from clusterica.cli.inputs.tables import Table, read_table, write_table
from clusterica.metrics import amari_distance


def mixed(rng, n_rows=3000):
    """Return two sparse sources, a mixing matrix, and their mixture."""
    S = rng.laplace(size=(n_rows, 2))
    A = np.array([[1.0, 0.6], [0.4, 1.0]])
    return A, S @ A.T


def matrix(path):
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    return np.array([row[1:] for row in rows[1:]], dtype=float)


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".npy", ".parquet"])
def test_tables_are_read_as_they_were_written(tmp_path, suffix):
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
    table = Table(np.random.default_rng().normal(size=(7, 3)), ("a", "b, with a comma", "c"))
    write_table(tmp_path / f"t{suffix}", table)
    again = read_table(tmp_path / f"t{suffix}")
    np.testing.assert_allclose(again.values, table.values, rtol=1e-8)
    assert again.names == (
        ("column 1", "column 2", "column 3") if suffix == ".npy" else table.names
    )
    assert [p.name for p in tmp_path.iterdir()] == [f"t{suffix}"]


@pytest.mark.parametrize(
    "text",
    ["a,b\n1,2\n3,4", "a;b\n1;2\n\n3;4\n", "a\tb\n1\t2\n3\t4", "1 2\n3  4\n", "1,2\r\n3,4\r\n"],
)
def test_separators(tmp_path, text):
    (tmp_path / "t.csv").write_text(text)
    np.testing.assert_array_equal(read_table(tmp_path / "t.csv").values, [[1, 2], [3, 4]])


@pytest.mark.parametrize("header", ["a;b;c\n", ""])
def test_decimal_commas(tmp_path, header):
    (tmp_path / "t.csv").write_text(f"{header}1,5;2;-0,25\n-3;,5;1,5e2\n")
    np.testing.assert_array_equal(
        read_table(tmp_path / "t.csv").values, [[1.5, 2, -0.25], [-3, 0.5, 150]]
    )


@pytest.mark.parametrize("header", ['"a;b",c', "x (a;b),y"])
def test_semicolons_in_a_header(tmp_path, header):
    (tmp_path / "t.csv").write_text(f"{header}\n1,2\n3,4\n")
    np.testing.assert_array_equal(read_table(tmp_path / "t.csv").values, [[1, 2], [3, 4]])


def test_parts_of_a_parquet_table(tmp_path):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    folder = tmp_path / "t.parquet"
    folder.mkdir()
    parts = [{"a": [1.0], "b": [2.0]}, {"b": np.float32([4.0]), "a": [3]}]
    for i, columns in enumerate(parts):
        parquet.write_table(pa.table(columns), folder / f"{i}.parquet")
    table = read_table(folder)
    assert table.names == ("a", "b")
    np.testing.assert_array_equal(table.values, [[1, 2], [3, 4]])


@pytest.mark.parametrize("method", ["cluster-ica", "rica"])
@pytest.mark.parametrize("suffix", [".csv", ".npy", ".parquet", ".wav"])
def test_separate(command, tmp_path, suffix, method):
    pytest.importorskip("matplotlib")
    A, X = mixed(np.random.default_rng())
    name = f"signals{suffix}"
    if suffix == ".wav":
        X = np.rint(X * 3000).clip(-32768, 32767)
        wavfile.write(tmp_path / name, 8000, X.astype(np.int16))
    else:
        write_table(tmp_path / name, Table(X, ("left", "right")))
    code, out, err = command("separate", name, "-o", "out", "--json", "--method", method)
    assert code == 0, err
    facts = json.loads(out)
    sources = {".wav": ["source-1.wav", "source-2.wav"]}.get(suffix, [f"sources{suffix}"])
    files = sorted(["mixing.csv", "unmixing.csv", "sources.png", *sources])
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == files
    assert sorted(facts["files"]) == sorted(f"out/{file}" for file in files)
    # What is written is what separates: sources = unmixing x signals, and mixing undoes it.
    mixing, unmixing = matrix("out/mixing.csv"), matrix("out/unmixing.csv")
    np.testing.assert_allclose(mixing @ unmixing, np.eye(2), atol=1e-5)
    assert amari_distance(unmixing, A) < 0.1
    if suffix == ".wav":
        found = np.stack([wavfile.read(f"out/{file}")[1] for file in sources], axis=1)
        assert wavfile.read("out/source-1.wav")[0] == 8000
    else:
        found = read_table(tmp_path / "out" / sources[0]).values
    truth = (X - X.mean(axis=0)) @ unmixing.T
    for i in range(2):
        assert np.corrcoef(found[:, i], truth[:, i])[0, 1] > 0.9999
    assert (tmp_path / "out" / "sources.png").read_bytes()[1:4] == b"PNG"
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(["out", name])


def test_separate_files_side_by_side_and_rows(command, tmp_path):
    _, X = mixed(np.random.default_rng(), 500)
    for i, name in enumerate(("a.wav", "b.wav")):
        wavfile.write(tmp_path / name, 8000, (X[:, i] * 1000).astype(np.int16))
    code, out, err = command("separate", "a.wav", "b.wav", "-o", "out", "--no-picture")
    assert code == 0, err
    assert "loudest in" in out
    np.save(tmp_path / "rows.npy", X.T)
    code, _, err = command("separate", "rows.npy", "-o", "out")
    assert code == 1
    assert "2 rows and 500 columns" in err
    assert "add --transpose" in err
    code, _, err = command(
        *("separate", "rows.npy", "-o", "out2", "--transpose", "--no-picture", "--sources", "1")
    )
    assert code == 0, err
    assert np.load(tmp_path / "out2" / "sources.npy").shape == (500, 1)


def test_sources_of_an_earlier_run_go(command, tmp_path):
    rng = np.random.default_rng()
    for name, n in (("many.wav", 3), ("few.wav", 2)):
        S = rng.laplace(size=(500, n)) @ rng.normal(size=(n, n))
        wavfile.write(tmp_path / name, 8000, (S * 1000).astype(np.int16))
    assert command("separate", "many.wav", "-o", "out")[0] == 0
    mine = ["notes.txt", "sources.bib", "source-1-edited.wav"]
    for name in mine:
        (tmp_path / "out" / name).write_text("mine")
    (tmp_path / "out" / "sources.txt").mkdir()
    code, _, err = command("separate", "few.wav", "-o", "out", "--no-picture")
    assert code == 0, err
    matrices = ["mixing.csv", "unmixing.csv"]
    found = sorted(p.name for p in (tmp_path / "out").iterdir())
    assert found == sorted([*matrices, *mine, "sources.txt", "source-1.wav", "source-2.wav"])


def test_a_column_of_times_is_no_signal(command, tmp_path):
    _, X = mixed(np.random.default_rng(), 500)
    table = Table(np.column_stack([np.arange(500) / 100, X]), ("time", "left", "right"))
    write_table(tmp_path / "t.csv", table)
    code, _, err = command("separate", "t.csv", "-o", "out", "--no-picture")
    assert code == 0
    assert "Left out, since it is not a signal: time." in err
    assert matrix("out/mixing.csv").shape == (2, 2)


@pytest.fixture
def iris(tmp_path):
    found = load_iris()
    with (tmp_path / "iris.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["length", "width", "petal length", "petal width", "species"])
        for row, label in zip(found.data, found.target, strict=True):
            writer.writerow([*row, found.target_names[label]])
    return found


@pytest.mark.parametrize(
    ("method", "clusters", "least"),
    [("k-means", 3, 0.7), ("spherical", 3, 0.85), ("kurtosis", None, 0.55)],
)
def test_cluster(command, tmp_path, iris, method, clusters, least):
    pytest.importorskip("matplotlib")
    more = () if clusters is None else ("--clusters", clusters)
    for name in ("labels.csv", "labels.npy", "labels.parquet"):
        if name.endswith("parquet"):
            pytest.importorskip("pyarrow")
        code, out, err = command(
            "cluster", "iris.csv", "-o", name, "--method", method, "--json", *more
        )
        assert code == 0, err
        assert "Left out, since they are not numbers: species." in err
        facts, labels = json.loads(out), read_table(tmp_path / name).values[:, 0].astype(int)
        assert adjusted_rand_score(iris.target, labels) > least
        assert (
            facts["sizes"] == np.bincount(labels).tolist() == sorted(facts["sizes"], reverse=True)
        )
        means = [iris.data[labels == i].mean(axis=0) for i in range(len(facts["sizes"]))]
        np.testing.assert_allclose([list(mean.values()) for mean in facts["means"]], means)
        assert (tmp_path / "labels.png").read_bytes()[1:4] == b"PNG"
    assert np.load(tmp_path / "labels.npy").shape == (150,)


def test_cluster_by_chosen_columns(command, iris):
    words = (
        "cluster",
        "iris.csv",
        "-o",
        "l.csv",
        "--no-picture",
        "--clusters",
        "2",
        "--standardize",
    )
    code, out, _ = command(*words, "--columns", "length", "petal width")
    assert code == 0
    assert "mean of petal width" in out
    assert "mean of width" not in out
    code, _, err = command(*words, "--columns", "species")
    assert code == 1
    assert "species is not a column of numbers of iris.csv. Its columns are: length, width" in err


def test_a_word_matters_in_a_column_that_is_used(command, tmp_path):
    (tmp_path / "t.csv").write_text("a,b,c\n1,2,3\n4,many,6\n7,8,9\n")
    words = ("cluster", "t.csv", "-o", "l.csv", "--no-picture", "--clusters", "2")
    for columns in ((), ("--columns", "b"), ("--columns", "a", "b")):
        code, _, err = command(*words, *columns)
        assert code == 1
        assert "line 3 of t.csv has 'many' in column b" in err
    assert command(*words, "--columns", "a", "c")[0] == 0


@pytest.mark.parametrize("method", ["k-means", "spherical"])
def test_cluster_a_sparse_matrix(command, tmp_path, method):
    pytest.importorskip("matplotlib")
    rng = np.random.default_rng()
    truth = rng.permutation(np.repeat([0, 1, 2], [40, 30, 20]))
    words = rng.poisson(np.where(np.arange(60) // 20 == truth[:, None], 1.0, 0.05))
    words[:, 0] += 1  # no row is empty
    sparse.save_npz(tmp_path / "words.npz", sparse.csr_array(words))
    options = ("--method", method, "--clusters", "3")
    code, out, err = command("cluster", "words.npz", "-o", "l.npy", "--json", *options)
    assert (code, err) == (0, "")
    labels, facts = np.load("l.npy"), json.loads(out)
    assert facts["files"] == ["l.npy", "l.png"]
    assert adjusted_rand_score(truth, labels) > 0.9
    # The same clusters as of the matrix with all its zeros.
    np.save(tmp_path / "words.npy", words)
    assert command("cluster", "words.npy", "-o", "d.npy", "--no-picture", *options)[0] == 0
    np.testing.assert_array_equal(labels, np.load("d.npy"))
    for i, named in enumerate(facts["means"]):
        mean = words[labels == i].mean(axis=0)
        assert len(named) == min(20, np.count_nonzero(mean))
        assert named == {name: pytest.approx(mean[int(name[7:]) - 1]) for name in named}
        assert sorted(named.values(), reverse=True) == list(named.values())
    code, out, _ = command("cluster", "words.npz", "-o", "l.npy", *options)
    assert "columns of largest mean" in out
    code, _, err = command("cluster", "words.npz", "-o", "x.npy", "--columns", "word")
    assert code == 1
    assert "leave out --columns" in err
    for option, value in (("--standardize", ()), ("--method", ("kurtosis",))):
        code, _, err = command("cluster", "words.npz", "-o", "x.npy", option, *value)
        assert code == 1
        assert f"is a sparse matrix, and {' '.join((option, *value))} would fill it" in err


@pytest.mark.parametrize("shape", [(1, 3), (3, 1), (2, 2), (30, 4)])
def test_small_and_empty_sparse_matrices_are_drawn(command, tmp_path, shape):
    pytest.importorskip("matplotlib")
    sparse.save_npz(tmp_path / "zeros.npz", sparse.csr_array(shape))
    code, _, err = command("cluster", "zeros.npz", "--clusters", "1", "-o", "l.csv")
    assert (code, err) == (0, "")


FILES = {
    "empty.csv": "",
    "header.csv": "a,b\n",
    "ragged.csv": "a,b\n1,2\n\n1,2,3\n",
    "word.csv": "a,b\n1,2\n3,4\n5,many\n",
    "words.csv": "a,b\nx,y\nz,w\n",
    "hole.csv": "a,b\n1,2\n3,\n5,NA\n",
    "constant.csv": "a,b\n1,2\n1,3\n1,4\n",
    "one.csv": "a\n1\n2\n3\n",
    "bad.npy": "no",
    "bad.parquet": "no",
    "bad.wav": "no",
    "notes.doc": "no",
}
X = np.eye(3)
X[1, 2] = np.nan
PARTS = {"format": b"csr", "shape": (3, 3), "data": np.ones(3), "indptr": [0, 1, 2, 3]}
NPZ = {
    "nan.npz": (
        lambda file: sparse.save_npz(file, sparse.csr_array(X)),
        "in row 2, column 3. Remove",
    ),
    "csc.npz": (
        lambda file: sparse.save_npz(file, sparse.csc_array(X)),
        "is csc; convert it with X",
    ),
    "dense.npz": (lambda file: np.savez(file, X), "save a table that is not sparse as .npy"),
    "far.npz": (lambda file: np.savez(file, **PARTS, indices=[0, 1, 3]), "indices must be < 3"),
    "wide.npz": (
        lambda file: np.savez(file, **PARTS | {"shape": (3, 2**40)}, indices=[0, 1, 2]),
        "columns, more than 4,194,304",
    ),
    "none.npz": (lambda file: None, "there is no file none.npz"),
    "bad.npz": (lambda file: file.write_text("no"), "can't be read as a matrix of scipy"),
    "empty.npz": (lambda file: sparse.save_npz(file, sparse.csr_array((0, 3))), "has no numbers"),
    "words.npz": (
        lambda file: np.savez(file, **PARTS | {"data": ["a", "b", "c"]}, indices=[0, 1, 2]),
        "it has <U1, int64, int64, no numbers",
    ),
    "pickle.npz": (
        lambda file: np.savez(file, **PARTS, indices=np.array([None])),
        "allow_pickle=False",
    ),
}


@pytest.mark.parametrize("name", NPZ)
def test_sparse_matrices_that_are_wrong(command, tmp_path, name):
    save, message = NPZ[name]
    save(tmp_path / name)
    code, out, err = command("cluster", name, "-o", "out.csv", "--no-picture")
    assert (code, out) == (1, "")
    assert message in err
    assert err.count("\n") == 1


WRONG = [
    ("none.csv", "there is no file none.csv"),
    ("empty.csv", "empty.csv is empty"),
    ("header.csv", "has a header and no rows"),
    ("ragged.csv", "line 4 of ragged.csv has 3 cells and the first line has 2"),
    ("word.csv", "line 4 of word.csv has 'many' in column b, which is not a number"),
    ("words.csv", "words.csv has no numbers in it; a, b are not numbers"),
    ("hole.csv", "2 missing or infinite values, the first in row 2, column b. Remove"),
    ("hole.npy", "1 missing or infinite values, the first in row 2, column 1. Remove"),
    ("cube.npy", "(2, 2, 2)"),
    ("bad.npy", "bad.npy can't be read as an array"),
    ("bad.parquet", "bad.parquet can't be read as Parquet"),
    ("bad.wav", "bad.wav can't be read as a WAV file"),
    ("notes.doc", "give a file that ends in .csv"),
]


@pytest.mark.parametrize(("name", "message"), WRONG)
@pytest.mark.parametrize("verb", ["cluster", "separate"])
def test_files_that_are_wrong(command, tmp_path, verb, name, message):
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    for file, text in FILES.items():
        (tmp_path / file).write_text(text)
    np.save(tmp_path / "cube.npy", np.zeros((2, 2, 2)))
    np.save(tmp_path / "hole.npy", np.array([[1.0], [np.inf]]))
    before = sorted(tmp_path.iterdir())
    code, out, err = command(verb, name, "-o", "out.csv", "--no-picture")
    assert (code, out) == (1, "")
    assert message in err
    assert err.count("\n") == 1
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("separate", "one.csv", "-o", "out"), "one.csv has one signal"),
        (("separate", "constant.csv", "-o", "out"), "a is the same in all rows"),
        (
            ("separate", "good.csv", "-o", "out", "--sources", "9"),
            "--sources 9 is more",
        ),
        (("separate", "good.csv", "-o", "one.csv"), "one.csv is a file; give the name of a folder"),
        (("separate", "good.csv", "-o", "."), "is the folder of the signals"),
        (("separate", "good.csv", "-o", "no/out"), "there is no folder no"),
        (("separate", "good.csv", "one.csv", "-o", "out"), "of the same length"),
        (
            ("cluster", "one.csv", "-o", "l.csv", "--clusters", "4"),
            "--clusters 4 is more than the 3 rows",
        ),
        (("cluster", "one.csv", "-o", "l.txt"), "l.txt must end in .csv or .parquet or .npy"),
        (("cluster", "one.csv", "-o", "one.csv"), "one.csv is what the command reads"),
    ],
)
def test_errors_say_what_to_do(command, tmp_path, words, message):
    for file, text in FILES.items():
        (tmp_path / file).write_text(text)
    write_table(
        tmp_path / "good.csv", Table(np.random.default_rng().normal(size=(40, 2)), ("a", "b"))
    )
    code, out, err = command(*words, "--no-picture")
    assert code in (1, 2)
    assert out == ""
    assert message in err


def test_missing_packages(command, iris, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for words in (("cluster", "iris.csv", "-o", "l.csv"), ("separate", "iris.csv", "-o", "out")):
        code, _, err = command(*words)
        assert code == 1
        assert 'pip install "clusterica[plot]"' in err
        assert "--no-picture" in err
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    code, _, err = command("cluster", "iris.csv", "-o", "l.parquet", "--no-picture")
    assert code == 1
    assert "pip install 'clusterica[files]'" in err


def test_ctrl_c_leaves_no_file(command, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")

    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    write_table(tmp_path / "t.csv", Table(mixed(np.random.default_rng())[1], ("a", "b")))
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", interrupted)
    for words in (("cluster", "t.csv", "-o", "l.csv"), ("separate", "t.csv", "-o", "out")):
        code, _, _ = command(*words)
        assert code == 130
        assert [p.name for p in tmp_path.iterdir()] == ["t.csv"]


@pytest.mark.filterwarnings("default")
def test_warnings_take_one_line(command, tmp_path):
    # A fixed draw: one in some hundred looks sparse enough.
    X = np.random.default_rng(0).normal(size=(2000, 2))
    write_table(tmp_path / "t.csv", Table(X, ("a", "b")))
    code, _, err = command("separate", "t.csv", "-o", "out", "--no-picture")
    assert code == 0
    assert err.startswith("Warning: ")
    assert "sources look Gaussian" in err
    assert err.count("\n") == 1


def test_a_column_of_a_larger_scale_is_named(command, tmp_path, rng):
    far = 5 * rng.choice([-1, 1], 200)  # two clusters, for all methods to find
    table = np.column_stack([far + rng.normal(size=200), 1000 * (far + rng.normal(size=200))])
    np.savetxt(tmp_path / "t.csv", table, delimiter=",", header="metres,millimetres", comments="")
    for words, is_named in (
        ((), True),
        (("--standardize",), False),
        (("--method", "kurtosis", "--clusters", "2"), False),
    ):
        code, _, err = command("cluster", "t.csv", "-o", "l.csv", "--no-picture", *words)
        assert code == 0
        assert ("millimetres varies" in err) == is_named
