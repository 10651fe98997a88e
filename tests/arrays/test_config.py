"""Settings: amounts of memory, threads, nesting, and what is refused."""

import json
import os
import pickle
import threading

import numpy as np
import pytest

import clusterica
from clusterica import config_context, get_config, set_config
from clusterica.arrays import _place, active_config
from clusterica.arrays._place import Place, group_limits, host_memory, parse_bytes

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


@pytest.mark.parametrize(
    ("groups", "files", "expected"),
    [
        ("", {}, []),
        ("0::/\n", {"memory.max": "max\n"}, []),
        ("0::/\n", {"memory.max": "1048576\n"}, [2**20]),
        (
            "0::/a.slice/b\n",
            {
                "a.slice/memory.max": "70000\n",
                "a.slice/b/memory.max": "80000\n",
                "x/memory.max": "3",
            },
            [70000, 80000],
        ),
        # A container of version 1 sees its own limit at the top, and its group by the name of the host.
        ("4:memory:/docker/1\n", {"memory/memory.limit_in_bytes": "5000\n"}, [5000]),
        (
            "11:cpu,memory:/jobs/7\n3:cpuset:/other\n1:name=systemd:/other\n",
            {
                "memory/jobs/memory.limit_in_bytes": "9223372036854771712\n",
                "memory/jobs/7/memory.limit_in_bytes": "6000\n",
                "memory/other/memory.limit_in_bytes": "1\n",
                "other/memory.max": "1\n",
            },
            [6000, 9223372036854771712],
        ),
    ],
)
def test_limits_of_control_groups(tmp_path, groups, files, expected):
    listed = tmp_path / "proc" / "self" / "cgroup"
    listed.parent.mkdir(parents=True)
    listed.write_text(groups)
    for name, limit in files.items():
        path = tmp_path / "sys" / "fs" / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(limit)
    assert sorted(group_limits(tmp_path)) == expected


def test_memory_is_the_least_of_the_limits(monkeypatch):
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(resource, "getrlimit", lambda which: (resource.RLIM_INFINITY, 0))
    monkeypatch.setattr(_place, "group_limits", lambda: [])
    whole = host_memory.__wrapped__()
    assert whole == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    monkeypatch.setattr(_place, "group_limits", lambda: [2**62, 2**21])
    assert host_memory.__wrapped__() == 2**21
    limits = {resource.RLIMIT_AS: (2**20, 2**30)}
    monkeypatch.setattr(resource, "getrlimit", limits.__getitem__)
    assert host_memory.__wrapped__() == 2**20


@pytest.mark.parametrize(
    "restore", [lambda settings: set_config(**settings), lambda _: set_config(memory=None)]
)
def test_settings_are_restored_exactly(restore):
    """The default of the budget is not taken for one that the user has set."""
    before, share = get_config(), Place(None).fit_memory
    set_config(memory="1MiB")
    assert Place(None).fit_memory == 2**20
    restore(before)
    assert get_config() == before
    assert not active_config().memory_is_set
    assert Place(None).fit_memory == share
    with config_context(memory="512MiB"):
        # The same number, but set.
        assert Place(None).fit_memory == 2**29
        chosen = get_config()
        with config_context(memory=None):
            assert Place(None).fit_memory == share
            with config_context(**chosen):
                assert active_config().memory_is_set


def test_settings_are_plain_numbers_for_json_and_pickle():
    settings = get_config()
    assert json.loads(json.dumps(settings)) == settings
    set_config(**pickle.loads(pickle.dumps(settings)))
    assert not active_config().memory_is_set
