"""What all tests share: fresh draws that can be repeated, array libraries, and a clean configuration."""

import contextlib
import itertools
import os
import secrets
import sys
import tempfile
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from sklearn.callback import ProgressBar

from clusterica.arrays import _place, _walk
from clusterica.kernels import Pull

# Without a GPU its kernels run on the CPU, by Triton's interpreter; Triton asks for this when it is imported.
if not Path("/dev/nvidiactl").exists():
    os.environ["TRITON_INTERPRET"] = "1"

# Fresh inputs on every run, but the same ones in CI, so that a failure there can be repeated; no clock,
# since machines may be slow.
repeatable = "CI" in os.environ
settings.register_profile("clusterica", derandomize=repeatable, deadline=None, max_examples=50)
settings.load_profile("clusterica")


def pytest_addoption(parser):
    parser.addoption(
        "--fresh-seed",
        type=int,
        help="seed of generators without one, to repeat a run of the tests",
    )


def pytest_configure(config):
    if hasattr(config, "workerinput"):  # of pytest-xdist, which chose it once for all workers
        config.fresh_seed = config.workerinput["fresh_seed"]
    else:
        given = config.getoption("--fresh-seed")
        config.fresh_seed = secrets.randbits(32) if given is None else given


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist
def pytest_configure_node(node):
    node.workerinput["fresh_seed"] = node.config.fresh_seed


def pytest_report_header(config):
    return f"fresh draws: repeat them with --fresh-seed={config.fresh_seed}"


def pytest_terminal_summary(terminalreporter, exitstatus, config):
    if exitstatus == pytest.ExitCode.TESTS_FAILED:  # the header may be far up, and -q hides it
        terminalreporter.write_line(pytest_report_header(config))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Seed ``default_rng()`` by the run and the test, so that fresh draws can be repeated.

    And NumPy's global state, from which estimators without a random_state draw their seeds.
    """
    test, original, count = (
        zlib.crc32(item.nodeid.encode()),
        np.random.default_rng,
        itertools.count(),
    )
    np.random.seed([item.config.fresh_seed, test])  # noqa: NPY002

    def default_rng(seed=None):
        if seed is None:
            seed = [item.config.fresh_seed, test, next(count)]
        return original(seed)

    np.random.default_rng = default_rng
    try:
        return (yield)
    finally:
        np.random.default_rng = original


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture(scope="session", params=["numpy", "torch", "strict", "strict-device1"])
def put(request):
    """A function that brings a host array to an array library.

    array-api-strict stands in for a GPU: what is not in the standard fails there, and its device1
    refuses to be mixed with host memory.
    """
    if request.param == "numpy":
        return np.asarray
    if request.param == "torch":
        torch = pytest.importorskip("torch")
        return lambda a: torch.asarray(np.array(a))
    xp = pytest.importorskip("array_api_strict")
    device = xp.Device("device1" if request.param == "strict-device1" else "CPU_DEVICE")
    return lambda a: xp.asarray(np.array(a), device=device)


class Watcher:
    """A callback that notes the tasks that end, whose they are, and models on the way; may ask to stop."""

    def __init__(self, stop_after=None, stop_at="iteration"):
        super().__init__()
        self.names, self.owners, self.models = [], [], []
        self.stop_after, self.stop_at = stop_after, stop_at

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        self.names.append(context.task_name)
        self.owners.append(context.estimator_name)
        if context.task_name == "iteration":
            self.models.append(fitted_estimator)
        return self.stop_after is not None and self.names.count(self.stop_at) >= self.stop_after

    def count(self, owner, name):
        return list(zip(self.owners, self.names, strict=True)).count((owner, name))


@pytest.fixture
def watcher():
    """The class of a callback that is not handed on to estimators inside."""
    return Watcher


@pytest.fixture
def bar():
    """A watcher that is, as progress bars are."""

    class Bar(Watcher, ProgressBar):
        pass

    return Bar()


@pytest.fixture
def tiles_of_seven_rows(monkeypatch):
    """Let functions of a block run over tiles of seven rows, whatever their width."""
    monkeypatch.setattr(_walk, "TILE", 1)
    monkeypatch.setattr(_walk, "TILE_ROWS", 7)


@pytest.fixture
def keep_config(monkeypatch):
    """Undo what a test changes with set_config, and that a budget was set at all."""
    monkeypatch.setattr(_place, "_default", _place._default)


@pytest.fixture
def protected():
    """A folder, and a context manager inside which nobody may write to it.

    Root is never refused, and so is another user inside. In ``tmp_path`` that one would not find the folder.
    """
    if not hasattr(os, "geteuid"):
        pytest.skip("needs the permissions of POSIX")

    @contextlib.contextmanager
    def read_only():
        is_root = os.geteuid() == 0
        folder.chmod(0o555)
        if is_root:
            os.seteuid(65534)
        try:
            yield
        finally:
            if is_root:
                os.seteuid(0)
            folder.chmod(0o755)

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder, read_only


@pytest.fixture
def uninstalled(monkeypatch):
    """A function that makes modules impossible to import, as if they were not installed."""

    class Absent:
        def __init__(self, names):
            self.names = names

        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] in self.names:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    def remove(*names):
        for name in [m for m in sys.modules if m.partition(".")[0] in names]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setattr(sys, "meta_path", [Absent(names), *sys.meta_path])

    return remove


class OfRoots:
    """A kernel of rows that are not negative."""

    unit_diagonal = False

    def __call__(self, X, W):
        return X**0.5 @ (W**0.5).T

    def diagonal(self, X):
        return X.sum(axis=1)

    def pull(self, X, W, values, Q):
        return Pull(0 * Q[0], -0.5 * (Q.T @ X**0.5) * W**-0.5)

    def diagonal_pull(self, W, q):
        return Pull(0 * q, -q[:, None] * np.ones_like(W))


@pytest.fixture
def kernel_of_roots():
    return OfRoots()
