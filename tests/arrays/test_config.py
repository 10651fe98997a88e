"""Settings: amounts of memory, threads, nesting, and what is refused."""

import threading

import numpy as np
import pytest

import clusterica
from clusterica import config_context, get_config, set_config
from clusterica.arrays import active_config
from clusterica.arrays._place import Place, host_memory, parse_bytes

pytestmark = pytest.mark.usefixtures("keep_config")


@pytest.mark.parametrize(
    ("amount", "n_bytes"),
    [
        ("64KiB", 65536),
        ("512MiB", 512 * 1024**2),
        ("2 GB", 2 * 10**9),
        (" 1.5GiB ", 3 * 2**29),
        ("1TiB", 2**40),
        ("100KB", 100_000),
        ("100000B", 100_000),
        ("100000", 100_000),
        (100_000, 100_000),
        (1e9, 10**9),
        (np.int64(2**20), 2**20),
    ],
)
def test_amounts_of_memory(amount, n_bytes):
    assert parse_bytes(amount) == n_bytes
    with config_context(memory=amount):
        assert get_config()["memory"] == n_bytes


@pytest.mark.parametrize(
    "amount", ["", "much", "-1GiB", "512mib", "1 PiB", "GiB", "nan", True, None, ".", "1.2.3MiB"]
)
def test_what_is_no_amount_of_memory(amount):
    with pytest.raises(ValueError, match=r"is not an amount of memory; write '512MiB'"):
        parse_bytes(amount)


@pytest.mark.parametrize("amount", [0, -1, 65535, "63KiB", "1B", "0.01MiB"])
def test_too_little_memory(amount):
    with pytest.raises(ValueError, match="at least '64KiB'"):
        parse_bytes(amount)


def test_defaults():
    assert get_config() == {
        "memory": 512 * 1024**2,
        "threads": None,
        "device": None,
        "lazy": "auto",
        "gpu_kernels": "auto",
        "precision": "float32",
    }
    assert active_config().n_threads >= 1


def test_contexts_nest_and_end():
    outside = get_config()
    with config_context(memory="1MiB", threads=3):
        with config_context(threads=None, device="cpu"):
            changed = {"memory": 2**20, "threads": None, "device": "cpu"}
            assert get_config() == outside | changed
        assert get_config() == outside | {"memory": 2**20, "threads": 3}
        assert active_config().n_threads == 3
    assert get_config() == outside


def test_a_context_ends_with_an_error():
    with pytest.raises(ZeroDivisionError), config_context(threads=3):
        1 / 0
    assert get_config()["threads"] is None


def test_set_config_holds_for_the_process_and_contexts_override_it():
    outside = get_config()
    set_config(threads=2, memory="1MiB")
    with config_context(threads=5):
        assert get_config() == outside | {"memory": 2**20, "threads": 5}
        set_config(threads=7)
        assert get_config()["threads"] == 5
    assert get_config()["threads"] == 7


def test_threads_of_the_user_have_contexts_of_their_own():
    set_config(threads=4)
    seen = []
    with config_context(threads=2):
        thread = threading.Thread(target=lambda: seen.append(get_config()["threads"]))
        thread.start()
        thread.join()
    assert seen == [4]


def test_what_get_config_returns_is_a_copy():
    get_config()["threads"] = 99
    assert get_config()["threads"] is None


@pytest.mark.parametrize("change", [set_config, lambda **s: config_context(**s).__enter__()])
@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"memry": 1}, TypeError, "memry"),
        ({"memory": "none"}, ValueError, "is not an amount"),
        ({"threads": 0}, ValueError, "threads=0 must be a positive integer"),
        ({"threads": -1}, ValueError, "positive integer, or None"),
        ({"threads": 1.5}, ValueError, "positive integer"),
        ({"threads": "2"}, ValueError, "positive integer"),
        ({"threads": True}, ValueError, "positive integer"),
    ],
)
def test_what_is_refused_changes_nothing(change, settings, error, message):
    before = get_config()
    with pytest.raises(error, match=message):
        change(**settings)
    assert get_config() == before


def test_numpy_integers_are_integers():
    with config_context(threads=np.int64(2)):
        assert active_config().n_threads == 2


def test_public_names():
    assert clusterica.config_context is config_context
    assert clusterica.__version__


def test_kernels_and_their_precision():
    with config_context(gpu_kernels="triton", precision="float16"):
        assert get_config()["precision"] == "float16"
        described = clusterica.describe_kernels(np.zeros(3, np.float32))
        assert described == "plain array operations: the data is not on a CUDA device"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"gpu_kernels": "cuda"}, "gpu_kernels='cuda' must be 'auto', 'triton' or None"),
        ({"gpu_kernels": "triton", "precision": "half"}, "precision='half' must be one of"),
        ({"gpu_kernels": None, "precision": "tf32"}, "set gpu_kernels='auto' too"),
    ],
)
def test_settings_of_kernels_that_are_refused(settings, message):
    with pytest.raises(ValueError, match=message), config_context(**settings):
        pass


def test_matrices_of_a_fit_may_take_a_quarter_of_the_machine():
    assert Place(None).fit_memory == max(get_config()["memory"], host_memory() // 4)
    assert host_memory() > 2**28
    with config_context(memory="3MiB"):
        assert Place(None).fit_memory == 3 * 2**20


@pytest.mark.parametrize(("limit", "expected"), [("1048576\n", 2**20), ("max\n", None)])
def test_memory_of_a_container_is_its_limit(monkeypatch, limit, expected):
    whole = host_memory.__wrapped__()
    monkeypatch.setattr("pathlib.Path.read_text", lambda path: limit)
    found = host_memory.__wrapped__()
    assert found == expected or (expected is None and found >= whole)
