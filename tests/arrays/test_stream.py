"""Host rows on a device: sent once where they fit, block by block one ahead where they do not."""

import threading
from contextlib import nullcontext
from unittest.mock import MagicMock, patch

import numpy as np
import pytest
import scipy.sparse as sp

from clusterica import config_context
from clusterica.arrays import (
    LazyRows,
    Place,
    _stream,
    as_rows,
    block_size,
    device_of,
    map_reduce,
    map_rows,
    to_host,
    working_memory,
)
from clusterica.arrays._place import Config
from clusterica.cluster import KMeans
from clusterica.linear import LinearSVC
from clusterica.preprocessing import Whitener

xp = pytest.importorskip("array_api_strict")
DEVICE = xp.Device("device1")


@pytest.fixture
def sent(monkeypatch):
    """Make a device of array-api-strict that of the configuration; return the shapes of what is sent."""
    shapes = []
    monkeypatch.setattr(Place, "of_work", lambda home: Place(xp.empty(0, device=DEVICE)))
    put = Place.put

    def counted(self, values):
        if isinstance(values, np.ndarray) and not self.on_host and values.ndim == 2:
            shapes.append(values.shape)
        return put(self, values)

    monkeypatch.setattr(Place, "put", counted)
    return shapes


def draw(n=3000, d=4):
    return np.random.default_rng().standard_normal((n, d)).astype(np.float32)


def n_rows_sent(shapes, d=4):
    return sum(n for n, width in shapes if width == d)


@working_memory(lambda row: 0)
def totals(X):
    assert device_of(X) == DEVICE
    return (xp.sum(X, axis=0),)


@pytest.mark.parametrize("kind", ["array", "memmap", "csr", "blocks"])
def test_rows_that_fit_are_sent_once(sent, kind, tmp_path):
    X = draw()
    if kind == "memmap":
        np.save(tmp_path / "X.npy", X)
        source = np.load(tmp_path / "X.npy", mmap_mode="r")
    else:
        source = sp.csr_array(X) if kind == "csr" else X
    rows = as_rows(source) if kind != "blocks" else _rows_of_blocks(X)
    for _ in range(3):
        (total,) = map_reduce(totals, rows)
        np.testing.assert_allclose(to_host(total), X.sum(axis=0), rtol=1e-4, atol=1e-3)
    assert n_rows_sent(sent) == len(X)


def _rows_of_blocks(X):
    from sklearn.base import BaseEstimator

    from clusterica.arrays import check_rows

    return check_rows(BaseEstimator(), [X[:1000], X[1000:]], reset=True)


def test_rows_that_do_not_fit_are_sent_for_each_walk_in_small_blocks(sent):
    X = draw(30_000)
    with config_context(memory="256KiB"):  # half of it for rows: they have 480 kB
        rows = as_rows(X)
        for _ in range(2):
            (total,) = map_reduce(totals, rows)
            np.testing.assert_allclose(to_host(total), X.sum(axis=0), rtol=1e-4, atol=1e-2)
    assert n_rows_sent(sent) == 2 * len(X)
    # Two blocks at a time, in half of the budget.
    assert max(n for n, d in sent if d == 4) * 16 * 2 <= 128 * 1024


def test_rows_that_stay_on_the_device_are_not_cut_smaller(sent, monkeypatch):
    rows = as_rows(draw())
    size = block_size(rows, 0)
    map_reduce(totals, rows)
    monkeypatch.setattr(_stream, "BLOCK_BYTES", 1000)
    monkeypatch.setattr(_stream, "fits", lambda rows: False)  # they take the room of others
    assert block_size(rows, 0) == size > block_size(as_rows(draw()), 0)


@pytest.mark.parametrize("chain", [1, 2])
def test_lazy_rows_follow_their_source(sent, chain):
    """What a walk has sent to the device is neither used by the next one nor kept there."""
    X = draw()
    Z = as_rows(X)
    for _ in range(chain):
        Z = LazyRows(_doubled, Z, ())
    for _ in range(2):
        (total,) = map_reduce(totals, Z)
        np.testing.assert_allclose(to_host(total), 2**chain * X.sum(axis=0), rtol=1e-4, atol=1e-2)
        np.testing.assert_array_equal(np.asarray(Z), 2**chain * X)
        np.testing.assert_array_equal(np.concatenate(list(Z)), 2**chain * X)
        X += draw(1)
    while isinstance(Z, LazyRows):
        Z = Z._source
        assert Z._kept is None


def test_the_result_is_the_same_whether_rows_fit_or_not(sent):
    X = draw(20_000)
    found = []
    for memory in ("64KiB", "16MiB"):
        with config_context(memory=memory):
            found.append(map_rows(_doubled, as_rows(X)))
    assert isinstance(found[0], np.ndarray)
    for values in found:
        np.testing.assert_array_equal(values, 2 * X)


@working_memory(lambda row: row.nbytes)
def _doubled(X):
    return 2 * X


def test_the_next_block_is_read_while_one_is_worked_on():
    begun, worked = [threading.Event() for _ in range(4)], []

    def load(i):
        begun[i].set()
        return i

    blocks = ((i, i + 1, lambda i=i: load(i)) for i in range(4))
    for i, _, ready in _stream._one_ahead(blocks):
        if i < 3:
            assert begun[i + 1].wait(10)
        # No further ahead: a device holds two blocks.
        assert not any(event.is_set() for event in begun[i + 2 :])
        worked.append(ready())
    assert worked == [0, 1, 2, 3]


def test_errors_of_a_source_are_those_of_the_walk():
    def broken():
        raise OSError("the disk is gone")

    blocks = iter([(0, 1, lambda: 1), (1, 2, broken)])
    with pytest.raises(OSError, match="the disk is gone"):
        list(_stream._one_ahead(blocks))


def test_a_walk_that_is_given_up_ends_its_thread():
    blocks = ((i, i + 1, lambda: 0) for i in range(100))
    walk = _stream._one_ahead(blocks)
    next(walk)
    walk.close()
    assert not any("clusterica-stream" in thread.name for thread in threading.enumerate())


@pytest.mark.parametrize(
    "estimator",
    [KMeans(3, max_iter=5, random_state=0, init="rows"), Whitener(), LinearSVC(C=0.1)],
    ids=lambda estimator: type(estimator).__name__,
)
def test_learners_send_their_rows_once(sent, estimator):
    X = draw(400)
    y = (X[:, 0] > 0).astype(int)
    with patch.object(_stream, "streamed", wraps=_stream.streamed) as walks:
        estimator.fit(X, y)
    assert walks.call_count == 1
    # A sample of the rows, and parameters with as many columns, are sent besides.
    assert n_rows_sent(sent) < 3 * len(X)


class FakeEvent:
    """An event of a device that waits for nothing; counts how often somebody waited for it."""

    waits = 0

    def record(self, stream):
        self.stream = stream

    def synchronize(self):
        FakeEvent.waits += 1


@pytest.fixture
def fake_cuda(monkeypatch):
    """Streams, events and page-locked memory of torch, in host memory, where copies are done at once."""
    torch = pytest.importorskip("torch")
    stream = MagicMock()
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: stream)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: stream)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: nullcontext())
    monkeypatch.setattr(torch.cuda, "Event", FakeEvent)
    monkeypatch.setattr(torch.Tensor, "record_stream", lambda self, stream: None)
    empty = torch.empty
    monkeypatch.setattr(torch, "empty", lambda *a, pin_memory=False, **k: empty(*a, **k))
    monkeypatch.setattr(FakeEvent, "waits", 0)
    return torch


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_blocks_sent_from_two_buffers_arrive_as_they_were(fake_cuda, dtype):
    sender = _stream.Sender(Place(fake_cuda.empty(0)), pinned=True)
    blocks = [draw(n, 3).astype(dtype) for n in (5, 9, 2, 9)]
    blocks[1].flags.writeable = False  # as those of memory maps
    sent = [sender.send(lambda block=block: block) for block in blocks]
    for block, one in zip(blocks, sent, strict=True):
        found = _stream._arrived(one)
        assert isinstance(found, fake_cuda.Tensor)
        np.testing.assert_array_equal(found.numpy(), block)
    # The third block waits for the buffer of the first, and the fourth for that of the second.
    assert FakeEvent.waits == 2


def test_a_block_waits_for_the_work_on_the_one_before_the_last(fake_cuda, monkeypatch):
    """A host that runs ahead of its device must not fill the memory of the device with blocks."""
    worked, waited, known = [], [0], []
    compute = MagicMock()
    empty_like = fake_cuda.empty_like

    class Event(FakeEvent):
        def record(self, stream):
            self.n_works = len(worked) if stream is compute else 0

        def synchronize(self):
            waited.append(self.n_works)

    def sent(staged, **settings):
        known.append(max(waited))
        return empty_like(staged, **settings)

    monkeypatch.setattr(fake_cuda.cuda, "current_stream", lambda device: compute)
    monkeypatch.setattr(fake_cuda.cuda, "Event", Event)
    monkeypatch.setattr(fake_cuda, "empty_like", sent)
    rows = as_rows(draw(50))
    rows.place = Place(fake_cuda.empty(0))
    monkeypatch.setattr(_stream, "is_cuda_tensor", lambda values: True)
    for _, _, load in _stream.streamed(rows, 10):
        worked.append(load())
    # When a block gets memory on the device, the work on all but the last one before it has ended.
    assert known == [0, 0, 1, 2, 3]
    np.testing.assert_array_equal(np.concatenate([block.numpy() for block in worked]), rows._X)


def test_memory_that_torch_keeps_for_later_counts_as_free(fake_cuda, monkeypatch):
    monkeypatch.setattr("clusterica.arrays._place._default", Config())
    rows = as_rows(draw())  # 48 kB
    rows.place = Place(fake_cuda.empty(0))
    monkeypatch.setattr(_stream, "is_cuda_tensor", lambda values: True)
    monkeypatch.setattr(fake_cuda.cuda, "mem_get_info", lambda device: (50_000, 200_000))
    monkeypatch.setattr(fake_cuda.cuda, "memory_allocated", lambda device: 90_000)
    for reserved, fit in ((150_000, True), (90_000, False)):
        monkeypatch.setattr(fake_cuda.cuda, "memory_reserved", lambda device, n=reserved: n)
        assert _stream.fits(rows) is fit


@pytest.mark.parametrize("dtype", ["float32", "int32", "bool"])
def test_results_come_to_their_places(fake_cuda, dtype, monkeypatch):
    monkeypatch.setattr(_stream, "BLOCK_BYTES", 100)  # several transfers for a block
    X = (10 * draw(50, 3)).astype(dtype)
    values = fake_cuda.asarray(X)
    target = _stream.room_for(values, len(X))
    assert target.dtype == X.dtype
    monkeypatch.setattr(_stream, "is_cuda_tensor", lambda values: True)
    inbox = _stream.Inbox(target)
    for start, stop in ((0, 20), (20, 21), (21, 50)):
        inbox.put(values[start:stop], slice(start, stop))
    inbox.finish()
    np.testing.assert_array_equal(target, X)
    # Columns are not contiguous, and copied at once.
    inbox.put(values[:, :2] * 0, (slice(None), slice(2)))
    np.testing.assert_array_equal(target[:, :2], 0 * X[:, :2])


def test_what_a_receiver_takes(fake_cuda):
    assert not _stream.can_receive(fake_cuda.zeros(3), Place())
    assert not _stream.can_receive(xp.zeros(3), Place())
