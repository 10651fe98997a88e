"""No damaged, foreign or malicious file loads, and every one ends in ModelFileError."""

import hashlib
import json
import os
import resource
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import safetensors
from numpy.testing import assert_array_equal

import clusterica
from clusterica.cluster import KMeans
from clusterica.io import ModelFileError, load_summary
from clusterica.kernels import Gaussian
from clusterica.preprocessing import Whitener
from clusterica.rica import KernelRICA

DATA = Path(__file__).parent / "data"


@pytest.fixture
def model_file(rng, tmp_path):
    model = Whitener().fit(rng.random((9, 2)))
    return clusterica.save(model, tmp_path / "m", summary={"rows": 9})


# --- The checksum -----------------------------------------------------------------------------------


def test_a_flipped_bit_anywhere_is_found(model_file, tmp_path):
    content, bad = bytearray(model_file.read_bytes()), tmp_path / "bad"
    rng = np.random.default_rng()
    for position in range(len(content)):
        bits = (1 << int(rng.integers(8)), int(rng.integers(1, 256)))
        for change in bits:
            content[position] ^= change
            bad.write_bytes(content)
            for reader in (clusterica.load, load_summary):
                with pytest.raises(ModelFileError, match="bad is"):
                    reader(bad)
            content[position] ^= change
    bad.write_bytes(content)
    clusterica.load(bad)


def test_random_bits_of_a_larger_file(tmp_path):
    rng = np.random.default_rng()
    model = KMeans(20, max_iter=2, tol=1, random_state=0).fit(rng.random((3000, 30)))
    path = clusterica.save(model, tmp_path / "m")
    content = bytearray(path.read_bytes())
    for position in rng.integers(8 * len(content), size=200).tolist():
        content[position // 8] ^= 1 << position % 8
        path.write_bytes(content)
        with pytest.raises(ModelFileError):
            clusterica.load(path)
        content[position // 8] ^= 1 << position % 8


def test_bytes_that_are_lost_moved_or_added(model_file):
    content = model_file.read_bytes()
    rng = np.random.default_rng()
    cuts = sorted(rng.integers(1, len(content), size=2).tolist())
    a, b, c = content[: cuts[0]], content[cuts[0] : cuts[1]], content[cuts[1] :]
    for bad in (content + b"\0", b"\0" + content, a + c, a + b + b + c, content[:-8] + bytes(8)):
        if bad == content:
            continue
        model_file.write_bytes(bad)
        with pytest.raises(ModelFileError):
            clusterica.load(model_file)


def test_other_readers_open_the_file(model_file):
    with safetensors.safe_open(model_file, framework="numpy") as file:
        names = list(file.keys())
        found = file.get_tensor("Whitener.whitening_")
    assert "Whitener.whitening_" in names
    assert_array_equal(found, clusterica.load(model_file).whitening_)


def test_the_same_model_gives_the_same_file(rng, tmp_path):
    model = Whitener().fit(rng.random((20, 3)))
    first, second = (clusterica.save(model, tmp_path / name) for name in "ab")
    assert first.read_bytes() == second.read_bytes()


def test_files_from_before_the_checksum(model_file, tmp_path):
    header = {"__metadata__": {"clusterica": json.dumps({"format": 1, "model": 5})}}
    text = json.dumps(header).encode()
    model_file.write_bytes(struct.pack("<Q", len(text)) + text)
    with pytest.raises(ModelFileError, match=r"format 1.*without a checksum.*save it"):
        clusterica.load(model_file)


# --- Files with a right checksum and wrong content --------------------------------------------------


@pytest.mark.parametrize("value", [5, None, "text", 1.5, {"list": []}, {"float": "nan"}])
def test_a_model_must_be_an_estimator(model_file, rewritten, value):
    rewritten(model_file, lambda d: d.update(model=value))
    with pytest.raises(ModelFileError, match="in place of an estimator"):
        clusterica.load(model_file)


WRONG = {
    "a list as a value": [1, 2],
    "an unknown kind": {"what": 1},
    "an absent array": {"array": "nowhere"},
    "a name that is no text": {"array": ["a"]},
    "an unhashable key": {"dict": [[{"list": []}, 1]]},
    "a pair of three": {"dict": [[1, 2, 3]]},
    "no float": {"float": {"list": []}},
    "no type": {"scalar": 1, "dtype": "nothing"},
    "a scalar of many bytes": {"scalar": 10**9, "dtype": "V1000000000"},
    "an integer out of range": {"scalar": 10**30, "dtype": "<i8"},
    "a shape that does not fit": {"items": ["a"], "shape": [2**62, 2**62], "dtype": "O"},
    "nested items": {"items": [["a"]], "shape": [1], "dtype": "O"},
    "a type of items": {"items": ["a"], "shape": [1], "dtype": "<U1000000"},
    "a text of floats": {"text": "Whitener.whitening_"},
    "no class": {"estimator": 5, "params": {}, "fitted": {}},
    "an unknown parameter": {
        "estimator": "clusterica.cluster:KMeans",
        "params": {"no": 1},
        "fitted": {},
    },
    "fields that are a list": {
        "estimator": "clusterica.cluster:KMeans",
        "params": [],
        "fitted": {},
    },
    "an abstract class": {
        "estimator": "clusterica.cluster:BaseKMeans",
        "params": {},
        "fitted": {},
    },
    "no named tuple": {"named": "clusterica.cluster:KMeans", "fields": {}},
    "no data": {"data": "clusterica.cluster:KMeans", "fields": {}},
    "no generator": {"random": {"dict": [["bit_generator", "os"]]}, "legacy": False},
    "a generator without state": {"random": 5, "legacy": False},
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_values(model_file, rewritten, name):
    rewritten(model_file, lambda d: d.update(summary={"dict": [["a", WRONG[name]]]}))
    with pytest.raises(ModelFileError, match=r"m contains|m names|m is not a model file"):
        load_summary(model_file)
    rewritten(model_file, lambda d: d["model"]["fitted"].update(mean_=WRONG[name]))
    with pytest.raises(ModelFileError):
        clusterica.load(model_file)


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        ("MT19937", "pos", 625),
        ("MT19937", "pos", -1),
        ("Philox", "buffer_pos", -1),
        ("Philox", "buffer_pos", 5),
    ],
)
def test_generators_do_not_read_other_memory(tmp_path, rewritten, name, field, value):
    model = KMeans(random_state=np.random.Generator(getattr(np.random, name)(0)))
    path = clusterica.save(model, tmp_path / "m")
    expected = model.random_state.random(3)
    assert_array_equal(clusterica.load(path).random_state.random(3), expected)

    def change(d):
        state = d["model"]["params"]["random_state"]["random"]["dict"]
        while field not in dict(state):
            state = dict(state)["state"]["dict"]
        next(pair for pair in state if pair[0] == field)[1] = value

    rewritten(path, change)
    with pytest.raises(ModelFileError, match="position of a generator"):
        clusterica.load(path)


@pytest.mark.parametrize("depth", [100, 5_000, 200_000])
def test_deep_nesting(model_file, depth):
    """The header, the description and what is in it may all be nested; too deep for json.dumps as well."""
    text = '{"list": [' * depth + "5" + "]}" * depth
    description = f'{{"sha256": "{"0" * 64}", "format": 2, "model": {text}, "summary": {text}}}'
    header = json.dumps({"__metadata__": {"clusterica": description}}).encode()
    for content in (header, ('{"a": ' + text + "}").encode()):
        content = struct.pack("<Q", len(content)) + content
        digest = hashlib.sha256(content).hexdigest().encode()
        model_file.write_bytes(content.replace(b"0" * 64, digest, 1))
        for reader in (clusterica.load, load_summary):
            with pytest.raises(ModelFileError):
                reader(model_file)


@pytest.mark.parametrize(
    "size", [0, 1, 7, 8, 2**31, 2**62, 2**63, 2**64 - 1], ids=lambda n: f"header-{n}"
)
def test_a_header_of_any_length(model_file, size):
    model_file.write_bytes(struct.pack("<Q", size) + model_file.read_bytes()[8:])
    with pytest.raises(ModelFileError):
        clusterica.load(model_file)


LOADER = """
import resource, sys
import clusterica, sklearn, safetensors.numpy
from clusterica.cluster import KMeans
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 2**26,) * 2)  # 64 MiB more
try:
    clusterica.io.load_summary(sys.argv[1])
except clusterica.io.ModelFileError:
    print("refused")
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs Linux")
@pytest.mark.parametrize("dtype", ["<U100000000", "V1000000000", "O", "T"])
def test_memory_is_bounded_by_the_file(model_file, rewritten, dtype):
    """Within 64 MiB a file of a few KB is refused, whatever sizes it states."""
    value = {"items": ["a"] * 100, "shape": [100], "dtype": dtype}
    rewritten(model_file, lambda d: d.update(summary={"dict": [["a", value]] * 10 + [["b", []]]}))
    found = subprocess.run(
        [sys.executable, "-c", LOADER, model_file], capture_output=True, text=True, check=False
    )
    assert found.stdout == "refused\n", found.stderr


def test_an_array_that_is_named_often_is_made_once(model_file, rewritten):
    """A model of a text of 400 KB that is named 20,000 times would take 8 GB."""
    model = clusterica.cluster.KMeans(3)
    model.names_ = np.full((100, 1), "x" * 1000)
    clusterica.save(model, model_file)

    def name_it_often(description):
        text = description["model"]["fitted"]["names_"]
        assert "text" in text
        description["model"]["fitted"]["names_"] = {"list": [text] * 20_000}
        description["summary"] = description["model"]["fitted"]["names_"]

    rewritten(model_file, name_it_often)
    names = clusterica.load(model_file).names_
    assert len(names) == 20_000
    assert names[0][7, 0] == "x" * 1000
    found = subprocess.run(
        [sys.executable, "-c", LOADER, model_file], capture_output=True, text=True, check=False
    )
    assert found.stdout == "refused\n", (
        found.stderr
    )  # a summary is no list, and the memory was enough


# --- Saving -----------------------------------------------------------------------------------------


def test_saving_keeps_permissions_and_links(model_file, tmp_path):
    model_file.chmod(0o640)
    (tmp_path / "link").symlink_to(model_file)
    clusterica.save(KMeans(3), tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert clusterica.load(model_file).n_clusters == 3
    assert model_file.stat().st_mode & 0o777 == 0o640


def test_a_disk_without_room(model_file):
    """The limit on the size of files stands in for a full disk."""
    before = model_file.read_bytes()
    model = KMeans()
    model.extra_ = np.zeros(10**6)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10**5, limits[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            clusterica.save(model, model_file)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert model_file.read_bytes() == before
    assert list(model_file.parent.iterdir()) == [model_file]


def test_a_read_only_folder(protected):
    folder, read_only = protected
    path = clusterica.save(KMeans(3), folder / "m")
    before = path.read_bytes()
    with read_only(), pytest.raises(PermissionError, match=r"m was not written.*may write to"):
        clusterica.save(KMeans(4), path)
    assert path.read_bytes() == before
    assert list(folder.iterdir()) == [path]


# --- Files of earlier versions ----------------------------------------------------------------------


@pytest.mark.parametrize("version", ["0.1.0"])
def test_files_of_earlier_versions_stay_loadable(version):
    """The file has the rows and predictions of that version as its summary."""
    path = DATA / f"pipeline-{version}.safetensors"
    kept = load_summary(path)
    model = clusterica.load(path)
    assert_array_equal(model.predict(kept["rows"]), kept["labels"])
    assert list(model[-1].classes_) == ["north", "south"]
    found = model[:-1].transform(kept["rows"])
    # Not bit for bit: another processor may add in another order.
    np.testing.assert_allclose(found, kept["features"], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("version", ["0.1.0"])
def test_files_without_newer_parameters_are_loaded(version):
    """A parameter that is newer than the file needs a value in ``_in_older_files`` of its class."""
    for name, model in clusterica.load(DATA / f"estimators-{version}.safetensors").steps:
        assert type(model).__name__ == name
        assert set(model.get_params(deep=False)) == set(type(model)._get_param_names())


def test_a_newer_parameter_has_the_value_of_the_time_of_the_file(rng, tmp_path, rewritten):
    X = rng.random((60, 3))
    model = KernelRICA(4, scale=1.0, unit_codes=False, max_iter=3, tol=1, random_state=0).fit(X)
    path = clusterica.save(model, tmp_path / "m")
    for name in ("scale", "unit_codes"):
        rewritten(path, lambda d, name=name: d["model"]["params"].pop(name))
    again = clusterica.load(path)
    assert (again.scale, again.unit_codes) == (1.0, False)
    assert_array_equal(again.transform(X), model.transform(X))
    rewritten(path, lambda d: d["model"]["params"].pop("tol"))
    with pytest.raises(ModelFileError, match="'tol' of KernelRICA is missing"):
        clusterica.load(path)


def test_a_missing_field_has_no_default(tmp_path, rewritten):
    path = clusterica.save(KernelRICA(kernel=Gaussian(2.0)), tmp_path / "m")
    rewritten(path, lambda d: d["model"]["params"]["kernel"]["fields"].clear())
    with pytest.raises(ModelFileError, match="'gamma' of Gaussian is missing"):
        clusterica.load(path)
