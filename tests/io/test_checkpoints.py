"""Runs that are interrupted go on from their checkpoints and end with the same bits."""

import functools
import importlib
import inspect
import json
import os
import pkgutil
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_array_equal
from sklearn.base import BaseEstimator

import clusterica
from clusterica.cluster import KMeans, VonMisesFisherMixture
from clusterica.io import ModelFileError, _checkpoint
from clusterica.linear import LinearSVC
from clusterica.networks import FeatureNetwork, Layer
from clusterica.optim import LoopState, Step, Stored, iterate
from clusterica.preprocessing import Whitener
from clusterica.rica import RICA

HERE = Path(__file__).parent


class Interrupted(Exception):
    pass


class Doubling:
    """A loop that counts its steps and may be interrupted before one of them."""

    def __init__(self, stop_before=None):
        self.n_steps, self.stop_before, self.draws = 0, stop_before, np.random.default_rng(0)

    def step(self, x):
        if self.n_steps == self.stop_before:
            raise Interrupted
        self.n_steps += 1
        new = x + self.draws.random(3)
        return Step(new, float(new.sum()), 1.0)

    def run(self, start=0.0, max_iter=10):
        def unpack(packed):
            x, self.draws.bit_generator.state = packed
            return x

        return iterate(
            self.step,
            LoopState(0, np.full(3, start)),
            max_iter=max_iter,
            tol=0.0,
            stored=Stored(lambda x: (x, self.draws.bit_generator.state), unpack),
        )


def interrupted(folder, n_steps, **settings):
    with pytest.raises(Interrupted), clusterica.checkpoints(folder, **settings):
        Doubling(n_steps).run()


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "run"


def with_checkpoints(folder, loop):
    with clusterica.checkpoints(folder):
        return loop.run()


def files(folder, kind):
    return sorted(folder.glob(f"{kind}-*"))


@pytest.mark.parametrize("every", [0, 1000])
def test_a_loop_goes_on_where_it_was_interrupted(folder, every):
    expected = Doubling().run()
    interrupted(folder, 4, every=every)
    again = Doubling()
    with clusterica.checkpoints(folder, every=every):
        found = again.run()
    assert again.n_steps == 6
    assert_array_equal(found.params, expected.params)
    assert found.history == expected.history
    assert found._replace(params=0) == expected._replace(params=0)


def test_loops_that_ended_are_not_run_again(folder):
    with clusterica.checkpoints(folder):
        first = [Doubling().run(start) for start in (0.0, 1.0)]
    again = [Doubling(0), Doubling(0), Doubling()]
    with clusterica.checkpoints(folder):
        found = [loop.run(start) for start, loop in zip((0.0, 1.0, 2.0), again, strict=True)]
    assert_array_equal(np.stack([r.params for r in found[:2]]), np.stack([r.params for r in first]))
    # What a loop has drawn counts as drawn.
    assert_array_equal(again[0].draws.random(3), again[2].draws.random(3))
    assert [loop.n_steps for loop in again] == [0, 0, 10]


def test_the_last_two_states_are_kept(folder):
    interrupted(folder, 7, every=0)
    assert [p.name for p in folder.iterdir()] == [p.name for p in files(folder, "running")]
    assert len(files(folder, "running")) == 2


@pytest.mark.parametrize("n_damaged", [1, 2])
def test_a_damaged_checkpoint_is_reported_and_the_one_before_it_used(folder, n_damaged):
    interrupted(folder, 7, every=0)
    for path in files(folder, "running")[-n_damaged:]:
        content = bytearray(path.read_bytes())
        content[np.random.default_rng().integers(len(content))] ^= 1
        path.write_bytes(content)
    again = Doubling()
    with pytest.warns(UserWarning, match=r"a checkpoint is not used.*It is now damaged-running"):
        found = with_checkpoints(folder, again)
    assert again.n_steps == (4 if n_damaged == 1 else 10)
    assert_array_equal(found.params, Doubling().run().params)
    with clusterica.checkpoints(folder):  # without another warning
        Doubling(0).run()


def test_a_damaged_result_is_computed_again(folder):
    with clusterica.checkpoints(folder, every=0):
        Doubling().run(0.0)
        expected = Doubling().run(1.0)
    first, _ = files(folder, "done")
    first.write_bytes(first.read_bytes()[:-1])
    again = Doubling(), Doubling(0)
    with clusterica.checkpoints(folder):
        with pytest.warns(UserWarning, match="a checkpoint is not used"):
            again[0].run(0.0)
        found = again[1].run(1.0)
    assert [loop.n_steps for loop in again] == [10, 0]
    assert_array_equal(found.params, expected.params)


@pytest.mark.parametrize("other", [(1, 2), np.array(["a", "b"]), np.zeros((2, 2)), "x", None])
def test_a_checkpoint_with_other_parameters_is_refused(folder, other):
    def run():
        iterate(lambda x: Step(x + 1, 1.0, 1.0), LoopState(0, np.zeros(2)), max_iter=5, tol=0.0)

    with clusterica.checkpoints(folder, every=0):
        run()
    (path,) = files(folder, "done")
    (record,) = _checkpoint._read_records(path)
    altered = record._replace(state=record.state._replace(params=other), ended=False)
    _checkpoint._write_records(path, [altered])
    with (
        pytest.raises(ModelFileError, match="is altered"),
        clusterica.checkpoints(folder),
    ):
        run()


@pytest.mark.parametrize("change", ["start", "max_iter", "draws"])
def test_another_run_is_refused(folder, change):
    interrupted(folder, 4)
    loop = Doubling()
    if change == "draws":
        loop.draws.random()
    with (
        pytest.raises(ValueError, match=r"checkpoints of another run: its loop 1 began with"),
        clusterica.checkpoints(folder),
    ):
        loop.run(1.0 if change == "start" else 0.0, 11 if change == "max_iter" else 10)
    # Nothing is lost by that.
    again = Doubling()
    with clusterica.checkpoints(folder):
        again.run()
    assert again.n_steps == 6


def test_other_data_is_refused(folder, rng):
    X, C = rng.random((100, 3)), rng.random((5, 3))
    with clusterica.checkpoints(folder):
        KMeans(5, init=C, random_state=0).fit(X)
    X[37, 1] += 1e-9
    with (
        pytest.raises(ValueError, match="its loop 1 of KMeans began with other data"),
        clusterica.checkpoints(folder),
    ):
        KMeans(5, init=C, random_state=0).fit(X)


WEIGHTED = [
    lambda X: KMeans(3, init=X[:3], random_state=0),
    lambda X: VonMisesFisherMixture(3, init=X[:3], random_state=0),
    lambda X: LinearSVC(1.0, random_state=0),
]


@pytest.mark.parametrize("make", WEIGHTED)
@pytest.mark.parametrize("as_type", [np.array, list, pytest.param(lambda w: 7.0, id="number")])
def test_other_weights_are_refused(folder, rng, make, as_type):
    X, y, weights = rng.random((60, 3)), np.arange(60) % 3, rng.random(60)
    model = make(X)
    with clusterica.checkpoints(folder):
        model.fit(X, y, sample_weight=as_type(weights))
    with clusterica.checkpoints(folder):  # the same once more
        model.fit(X, y, sample_weight=as_type(weights))
    weights[41] += 0.5
    for other in (None, weights):
        with (
            pytest.raises(ValueError, match="began with other data"),
            clusterica.checkpoints(folder),
        ):
            model.fit(X, y, sample_weight=other)


@pytest.mark.parametrize("labels", [[0, 1], ["a", "b"]])
def test_other_labels_in_a_list_are_refused(folder, rng, labels):
    X, y = rng.random((60, 3)), [labels[i % 2] for i in range(60)]
    model = LinearSVC(1.0, random_state=0)
    with clusterica.checkpoints(folder):
        model.fit(X, y)
    y[7] = labels[0]
    with pytest.raises(ValueError, match="other data"), clusterica.checkpoints(folder):
        model.fit(X, y)


class Blocks:
    def __init__(self, X):
        self.X = X

    def __iter__(self):
        return iter(np.array_split(self.X, 3))


def lazy(X):
    with clusterica.config_context(lazy=True):
        return Whitener().fit(X[:50]).transform(X)


KINDS = ["array", "strided", "objects", "csr", "frame", "tensor"]
KINDS += ["Dask", "iterable", "lazy", "Zarr", "Arrow"]


@pytest.mark.parametrize("kind", KINDS)
def test_one_changed_number_changes_the_checksum_of_the_data(rng, kind, monkeypatch):
    monkeypatch.setattr(_checkpoint, "_CHECKED_BYTES", 256)
    X = rng.random((97, 4)).astype(np.float32)
    make = {
        "array": np.array,
        "strided": lambda X: X.repeat(2, axis=0)[::2],
        "objects": lambda X: np.array([str(x) for x in X[:, 1]], dtype=object),
        "csr": scipy.sparse.csr_array,
        "frame": lambda X: pytest.importorskip("pandas").DataFrame(X),
        "tensor": lambda X: pytest.importorskip("torch").asarray(X.copy()),
        "Dask": lambda X: pytest.importorskip("dask.array").from_array(X.copy(), chunks=(40, 4)),
        "iterable": lambda X: Blocks(X.copy()),
        "lazy": lambda X: lazy(X.copy()),
        "Zarr": lambda X: pytest.importorskip("zarr").array(X, chunks=(30, 4)),
        "Arrow": lambda X: pytest.importorskip("pyarrow").table(
            dict(zip("abcd", X.T, strict=True))
        ),
    }[kind]
    found = _checkpoint._checksum(make(X))
    assert found == _checkpoint._checksum(make(X))
    i = rng.integers(97)
    X[i, 1] += 1e-3
    assert _checkpoint._checksum(make(X)) not in (found, None)
    assert _checkpoint._checksum(iter(X)) is None


@pytest.mark.parametrize(
    "model",
    [KMeans(2), RICA(2), LinearSVC(), FeatureNetwork([Layer(2, patch_size=2, n_patches=50)])],
    ids=lambda model: type(model).__name__,
)
def test_a_seed_is_needed(folder, rng, model):
    images = isinstance(model, FeatureNetwork)
    X = rng.integers(0, 256, (20, 6, 6)).astype(np.uint8) if images else rng.random((50, 3))
    with (
        clusterica.checkpoints(folder),
        pytest.raises(ValueError, match=r"random_state is None; within clusterica.checkpoints"),
    ):
        model.fit(X, np.arange(len(X)) % 2)
    model.fit(X, np.arange(len(X)) % 2)  # outside it is fine


def test_loops_inside_steps_belong_to_the_step(folder):
    def step(x):
        return Step(x + Doubling().run(max_iter=2).params, float(x.sum()), 1.0)

    def run(steps):
        return iterate(steps, LoopState(0, np.zeros(3)), max_iter=5, tol=0.0)

    count = iter(range(3))

    def failing(x):
        if next(count, None) is None:
            raise Interrupted
        return step(x)

    with pytest.raises(Interrupted), clusterica.checkpoints(folder, every=0):
        run(failing)
    with clusterica.checkpoints(folder):
        found = run(step)
    assert_array_equal(found.params, run(step).params)


def test_nothing_is_kept_outside(folder):
    with clusterica.checkpoints(folder):
        pass
    Doubling().run()
    assert list(folder.iterdir()) == []


def test_a_disk_without_room(folder):
    """The limit on the size of files stands in for a full disk; the last good checkpoint stays."""
    interrupted(folder, 4, every=0)
    before = {path: path.read_bytes() for path in folder.iterdir()}
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(OSError, match="too large"), clusterica.checkpoints(folder, every=0):
            Doubling().run()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
    again = Doubling()
    with clusterica.checkpoints(folder):
        again.run()
    assert again.n_steps == 6


def test_a_read_only_folder(protected):
    folder, read_only = protected
    interrupted(folder, 4, every=0)
    before = {path: path.read_bytes() for path in folder.iterdir()}
    again = Doubling()
    message = r"was not written.*may write to"
    with (
        read_only(),
        pytest.raises(PermissionError, match=message),
        clusterica.checkpoints(folder, every=0),
    ):
        again.run()
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
    assert again.n_steps == 1  # from the fourth on, and its checkpoint is refused


def test_bad_arguments(folder, tmp_path):
    for every in (-1, float("nan")):
        with (
            pytest.raises(ValueError, match="every is"),
            clusterica.checkpoints(folder, every=every),
        ):
            pass
    (tmp_path / "file").touch()
    with (
        pytest.raises(NotADirectoryError, match="is a file; checkpoints need a folder"),
        clusterica.checkpoints(tmp_path / "file"),
    ):
        pass


def test_tensors(folder, rng):
    torch = pytest.importorskip("torch")
    X = torch.asarray(rng.laplace(size=(200, 4)))
    expected = KMeans(4, random_state=0).fit(X)
    for _ in range(2):
        with clusterica.checkpoints(folder, every=0):
            found = KMeans(4, random_state=0).fit(X)
        assert isinstance(found.cluster_centers_, torch.Tensor)
        assert_array_equal(found.cluster_centers_, expected.cluster_centers_)


# --- SIGKILL ----------------------------------------------------------------------------------------


@pytest.fixture
def quick_folder(tmp_path):
    """A folder in memory if there is one: hundreds of files are brought to the disk, and disks are slow."""
    memory = "/dev/shm"
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield Path(folder)


def kill_and_resume(n_kills, seed, folder, learners=()):
    command = [sys.executable, HERE / "killed_runs.py", str(n_kills), str(seed), folder, *learners]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    results = [json.loads(line) for line in found.stdout.splitlines()]
    assert [r["learner"] for r in results if not r["same"]] == [], found.stderr
    return results


QUICK = ("KMeans, batches", "RICA", "LinearSVC, wide", "FeatureNetwork")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_killed_runs(quick_folder):
    seed = int(np.random.default_rng().integers(2**31))
    results = kill_and_resume(3, seed, quick_folder, QUICK)
    assert sum(r["kills"] for r in results) >= len(QUICK), f"seed {seed}"


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_two_hundred_killed_runs(quick_folder):
    seed = int(np.random.default_rng().integers(2**31))
    assert sum(r["kills"] for r in kill_and_resume(8, seed, quick_folder)) >= 200, f"seed {seed}"


def test_every_learner_that_iterates_is_killed():
    iterating = set()
    for _, package, _ in pkgutil.iter_modules(clusterica.__path__, "clusterica."):
        module = importlib.import_module(package)
        public = [getattr(module, name) for name in getattr(module, "__all__", ())]
        estimators = [c for c in public if inspect.isclass(c) and issubclass(c, BaseEstimator)]
        iterating |= {
            c.__name__ for c in estimators if "max_iter" in inspect.signature(c).parameters
        }
    source = (HERE / "killed_runs.py").read_text()
    assert sorted(name for name in iterating if f"{name}(" not in source) == []


def test_data_that_is_changed_between_fits_is_compared_again(folder, rng):
    X = rng.standard_normal((60, 3))

    def two_fits(n_changed):
        y = np.arange(60) % 2
        LinearSVC(1.0, random_state=0).fit(X, y)
        y[:n_changed] = 1 - y[:n_changed]
        return LinearSVC(1.0, random_state=0).fit(X, y)

    with clusterica.checkpoints(folder):
        expected = two_fits(3)
    with clusterica.checkpoints(folder):
        assert_array_equal(two_fits(3).coef_, expected.coef_)
    with (
        pytest.raises(ValueError, match="its loop 2 of LinearSVC began with other data"),
        clusterica.checkpoints(folder),
    ):
        two_fits(20)


def scaled_sum(X, scale):
    return scale * X.sum()


class Scale:
    def __init__(self, scale):
        self.scale, self.hook = scale, scaled_sum


@pytest.mark.parametrize("make", [Scale, lambda s: functools.partial(scaled_sum, scale=s)])
def test_numbers_in_an_object_of_the_user_are_compared(folder, rng, make):
    X = rng.standard_normal((60, 3))

    def fit(scale):
        model = WithObject(2, init=X[:2], random_state=0)
        model.extra = make(scale)
        return model.fit(X)

    for _ in range(2):
        with clusterica.checkpoints(folder):
            fit(1.0)
    with pytest.raises(ValueError, match="another run"), clusterica.checkpoints(folder):
        fit(2.0)


class WithObject(KMeans):
    def get_params(self, deep=True):
        return super().get_params(deep) | {"extra": getattr(self, "extra", None)}


@pytest.mark.parametrize("kind", ["NumPy", "HDF5"])
def test_other_blocks_are_refused(folder, rng, kind):
    X, Y = rng.standard_normal((2, 40, 3))
    put = np.asarray
    if kind == "HDF5":
        file = pytest.importorskip("h5py").File(folder, "w", driver="core", backing_store=False)

        def put(block):
            return file.create_dataset(str(len(file)), data=block)

    with clusterica.checkpoints(folder, every=0):
        KMeans(2, init=X[:2], random_state=0).fit([put(X[:20]), put(X[20:])])
    with pytest.raises(ValueError, match="another run"), clusterica.checkpoints(folder, every=0):
        KMeans(2, init=X[:2], random_state=0).fit([put(Y[:20]), put(Y[20:])])
