"""Checkpoints: the loops of a run are kept in a folder, so that the same run, repeated, goes on from there.

Loops are numbered in the order in which they start. A loop that has ended is stored with its result, with
others in a file ``done-FIRST-LAST.safetensors``; of the loop that runs the last two states are kept, in files
``running-NUMBER.safetensors``. A run that is repeated with the same seed, data and parameters starts the same
loops from the same states, which is verified: each record has a fingerprint of how its loop began.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import array_api_compat
import numpy as np
import scipy.sparse

from clusterica.arrays import Array, LazyRows, as_chunks, seeds_needed, to_host, warn_user
from clusterica.io._sealed import ModelFileError, read_sealed, write_sealed
from clusterica.io._values import Reader, Writer
from clusterica.optim import LoopResult, LoopState, Progress, Stored, recorder

_FORMAT = "checkpoint 1"
_DONE = re.compile(r"done-(\d{8})-(\d{8})\.safetensors")
_RUNNING = re.compile(r"running-(\d{8})\.safetensors")
_PLAIN = (bool, int, float, str, type(None), np.generic)
# Bytes of the data that are read at a time for its checksum; they are copied.
_CHECKED_BYTES = 2**22
# What arrays, tables and arrays in files have, and iterables of blocks do not.
_OF_ARRAYS = ("__array__", "__array_interface__", "__dataframe__", "__arrow_c_stream__", "shape")
_ANY_RUNNING = re.compile(r"(?:damaged-)?running-(\d{8})\.safetensors")


@contextlib.contextmanager
def checkpoints(path: str | os.PathLike[str], *, every: float = 60.0) -> Iterator[Path]:
    """Keep what is learned inside the ``with`` block in a folder, so that an interrupted run can go on.

    Repeat the same code after an interruption, whatever it was: fits that had ended return at once, and the
    one that was interrupted goes on from its last checkpoint. The result is that of a run without
    interruption, bit for bit on the same machine.

    Parameters
    ----------
    path : path
        A folder for the checkpoints, new or of the same run. Remove it when the result is saved.
    every : float, default=60.0
        Seconds between two checkpoints; 0 writes one after every iteration. One more is written when the
        block ends, by Ctrl-C or an error as well.

    Yields
    ------
    Path
        The folder.

    Raises
    ------
    ValueError
        If the folder belongs to another run (other data, parameters, seed or version), or if an estimator
        draws numbers with ``random_state=None``, so that it would draw others when the run is repeated.
    OSError
        If a checkpoint can't be written. Those before it are unchanged.

    Notes
    -----
    All estimators that iterate are covered: the K-means family, ``ica``, ``rica``, ``dictionaries``, the
    linear classifiers, and ``images`` and ``networks``, which use them. What is computed between their loops,
    such as features of images, is computed again, and so is a fit without a loop, as of
    KernelRidgeClassifier. Fits in other threads and processes are not recorded.

    Of the data every number is compared, which takes one more pass over it for each fit. Functions are known
    by their names.

    Files are written in one step and have checksums. A damaged one is reported by a warning, and the one
    before it is used.

    Examples
    --------
    >>> import tempfile
    >>> import clusterica
    >>> from clusterica.cluster import KMeans
    >>> from clusterica.datasets import photo_patches
    >>> X = photo_patches(1000, 4, random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with clusterica.checkpoints(f"{folder}/run", every=30):
    ...         model = KMeans(8, random_state=0).fit(X)
    """
    if not every >= 0:  # nor is NaN
        raise ValueError(f"every is {every!r}; it must be a number of seconds, 0 or more")
    folder = Path(path).expanduser()
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"{folder} is a file; checkpoints need a folder of their own")
    folder.mkdir(parents=True, exist_ok=True)
    keeper = _Keeper(folder, every)
    set_recorder, set_seeds = recorder.set(keeper), seeds_needed.set(True)
    try:
        yield folder
    finally:
        recorder.reset(set_recorder)
        seeds_needed.reset(set_seeds)
        keeper.write()


class _Record(NamedTuple):
    """The state of a loop after its last step; ``params`` are packed."""

    number: int
    mark: str
    """Fingerprint of how the loop began."""
    state: LoopState
    ended: bool
    stopped: bool = False


class _Keeper:
    """The checkpoints of one run; a recorder of :mod:`clusterica.optim`."""

    def __init__(self, folder: Path, every: float) -> None:
        self._folder, self._every = folder, every
        self._thread = threading.get_ident()
        self._n_loops = 0  # that have started
        self._inside = False  # a loop
        self._written = time.monotonic()
        self._ended: list[_Record] = []  # and not written yet
        self._current: _Record | None = None
        self._done: tuple[Path | None, list[_Record]] = (
            None,
            [],
        )  # the file of ended loops read last
        found = [_read_or_warn(path) for path, _ in reversed(self._files(_RUNNING))]
        self._interrupted = [one for records in found for one in records]  # the newest first
        # Not lower than that of a damaged file: numbers tell which files are old.
        self._last_file = max((int(m[1]) for _, m in self._files(_ANY_RUNNING)), default=0)

    def record(
        self,
        run: Callable[[LoopState, Callable[[LoopState], None]], LoopResult],
        start: LoopState,
        *,
        hook: Callable[[LoopState], None] | None,
        stored: Stored | None,
        progress: Progress | None,
        limits: tuple[int, float],
    ) -> LoopResult:
        """Run a loop from where its last checkpoint left it, and keep its states."""
        # A loop within a step is repeated with it. Loops of other threads start in no fixed order.
        if self._inside or threading.get_ident() != self._thread:
            return run(start, hook or (lambda state: None))
        pack, unpack = stored or (_same, _same)
        number = self._n_loops
        self._n_loops += 1
        begin = start._replace(params=pack(start.params))
        mark = _fingerprint(begin, progress, limits)
        found = self._find(number, mark, progress)
        if found is not None:
            # A file may have a right checksum and fingerprint, and not be written by clusterica.
            try:
                if not _may_follow(found.state.params, begin.params):
                    raise TypeError(f"{type(found.state.params).__name__} in place of parameters")
                start = found.state._replace(params=unpack(found.state.params))
            except Exception as error:
                raise ModelFileError(
                    f"a checkpoint in {self._folder} is altered: {error!r}"
                ) from error
            if found.ended:
                n_iter, params, history, converged = start
                return LoopResult(params, history, n_iter, converged, found.stopped)

        def keep(state: LoopState) -> None:
            if hook is not None:
                hook(state)
            state = state._replace(params=pack(state.params))
            self._current = _Record(number, mark, state, ended=False)
            self._write_if_due()

        self._inside = True
        try:
            result = run(start, keep)
        finally:
            self._inside = False
        end = LoopState(result.n_iter, pack(result.params), result.history, result.converged)
        self._ended.append(_Record(number, mark, end, ended=True, stopped=result.stopped))
        self._current = None
        self._write_if_due()
        return result

    def _write_if_due(self) -> None:
        if time.monotonic() - self._written >= self._every:
            self.write()

    def write(self) -> None:
        """Write what has changed since the last time."""
        if self._ended:
            first, last = self._ended[0].number, self._ended[-1].number
            name = f"done-{first:08d}-{last:08d}.safetensors"
            _write_records(self._folder / name, self._ended)
            self._ended = []
        if self._current is not None:
            self._last_file += 1
            _write_records(
                self._folder / f"running-{self._last_file:08d}.safetensors", [self._current]
            )
            self._current = None
            for path, match in self._files(_RUNNING):
                if int(match[1]) <= self._last_file - 2:
                    path.unlink()
        self._written = time.monotonic()

    def _find(self, number: int, mark: str, progress: Progress | None) -> _Record | None:
        """Return what is stored of a loop: its end, or else its last state that can be read."""
        records: list[_Record] = []
        for path, match in self._files(_DONE):
            if int(match[1]) <= number <= int(match[2]):
                if self._done[0] != path:
                    self._done = path, _read_or_warn(path)
                records += self._done[1]
        found = next((r for r in records + self._interrupted if r.number == number), None)
        if found is not None and found.mark != mark:
            owner = "" if progress is None else f" of {type(progress.estimator).__name__}"
            raise ValueError(
                f"{self._folder} has checkpoints of another run: its loop {number + 1}{owner} began with "
                "other data, parameters, seed or version. Remove the folder, or give another one"
            )
        return found

    def _files(self, pattern: re.Pattern[str]) -> list[tuple[Path, re.Match[str]]]:
        found = ((path, pattern.fullmatch(path.name)) for path in sorted(self._folder.iterdir()))
        return [(path, match) for path, match in found if match]


def _read_or_warn(path: Path) -> list[_Record]:
    """Return the records of a file; one that is damaged is reported and renamed, and none are returned."""
    try:
        return _read_records(path)
    except ModelFileError as error:
        aside = path.with_name(f"damaged-{path.name}")
        os.replace(path, aside)
        warn_user(
            f"a checkpoint is not used, and the one before it is: {error}. It is now {aside.name}"
        )
        return []


def _same(params: Any) -> Any:
    return params


def _may_follow(later: Any, start: Any) -> bool:
    """Return whether steps may have made one from the other: tuples stay tuples, arrays keep their dtype."""
    if isinstance(start, tuple):
        return type(later) is type(start) and all(map(_may_follow, later, start))
    if hasattr(start, "dtype"):
        return bool(getattr(later, "dtype", None) == start.dtype and later.ndim == start.ndim)
    return True


def _write_records(path: Path, records: list[_Record]) -> None:
    writer = Writer()
    loops = [
        {
            "number": one.number,
            "mark": one.mark,
            "ended": one.ended,
            "stopped": one.stopped,
            "state": writer.write(tuple(one.state), str(one.number)),
        }
        for one in records
    ]
    write_sealed(path, {"format": _FORMAT, "loops": loops}, writer.arrays)


def _read_records(path: Path) -> list[_Record]:
    description, arrays = read_sealed(path)
    reader = Reader(arrays, None, source=str(path))
    if description.get("format") != _FORMAT:
        raise ModelFileError(f"{path} has format {description.get('format')!r:.20}")
    try:
        records = []
        for one in description["loops"]:
            n_iter, params, history, converged = reader.read_all(one["state"])
            values = tuple(float(value) for value in history)
            if int(n_iter) < 0:
                raise ValueError(f"n_iter is {n_iter!r:.20}")
            state = LoopState(int(n_iter), params, values, bool(converged))
            number, mark = int(one["number"]), str(one["mark"])
            records.append(_Record(number, mark, state, bool(one["ended"]), bool(one["stopped"])))
        return records
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ModelFileError(f"{path} is not a checkpoint: {error!r:.80}") from error


def _checksum(value: Any) -> int | None:
    """Return the CRC-32 of the numbers or words of some data; None of what has none, or is read only once."""
    if isinstance(value, _PLAIN):
        return zlib.crc32(repr(value).encode())
    chunks = as_chunks(value)
    if chunks is not None:  # each where it is
        return zlib.crc32(repr(chunks.engine.fetch(chunks.map(_checksum))).encode())
    if isinstance(value, list | tuple) and not all(isinstance(part, _PLAIN) for part in value):
        return zlib.crc32(repr([_checksum(block) for block in value]).encode())
    is_array = isinstance(value, list | tuple) or any(hasattr(value, name) for name in _OF_ARRAYS)
    if not is_array and (not hasattr(value, "__iter__") or iter(value) is value):
        return None
    found = 0
    for part in _parts(value, is_array):
        block = to_host(part)
        text = repr(block.tolist()).encode() if block.dtype.hasobject else block.tobytes()
        found = zlib.crc32(text, found)
    return found


def _parts(value: Any, is_array: bool) -> Iterator[Array]:
    """Yield the content of data from first to last, in parts that are copied one at a time."""
    if isinstance(value, LazyRows) or not is_array:
        for block in value:
            yield from _parts(block, True)
        return
    if scipy.sparse.issparse(value):
        for values in (value.data, *value.nonzero()):
            yield from _parts(values, True)
        return
    # Of an array in a file whole chunks are read, since each is decoded as a whole.
    chunks = getattr(value, "chunks", None)
    if chunks is None and not array_api_compat.is_torch_array(value):
        value = np.asarray(value)
    value = value if value.ndim else value[None]
    n = max(1, _CHECKED_BYTES // max(1, to_host(value[:1]).nbytes))
    n = n if chunks is None else -(-n // chunks[0]) * chunks[0]
    for start in range(0, value.shape[0], n):
        yield value[start : start + n]


def _fingerprint(
    start: LoopState,
    progress: Progress | None,
    limits: tuple[int, float],
) -> str:
    """Return a hash of what decides how a loop goes: its start, its estimator and the data."""
    import clusterica

    writer, owner = Writer(), None if progress is None else progress.estimator
    known: dict[str, Any] = {
        "version": clusterica.__version__,
        "limits": list(limits),
        "estimator": type(owner).__qualname__,
        "start": writer.write(tuple(start), "start"),
    }
    for name, value in {} if owner is None else owner.get_params(deep=False).items():
        try:
            known[f"parameter {name}"] = writer.write(value, f"parameter {name}")
        except TypeError:  # a function, or an object of the user
            known[f"parameter {name}"] = _described(value, writer, f"parameter {name}")
    if progress is not None:
        known |= {name: _noted(progress, name) for name in progress.data}
    digest = hashlib.sha256(json.dumps(known, sort_keys=True).encode())
    for name, array in sorted(writer.arrays.items()):
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _noted(progress: Progress, name: str) -> Any:
    """Return the type, shape and checksum of some data of a fit, computed once: it may have many loops."""
    if name not in progress.notes:
        value = progress.data[name]
        shape = str(getattr(value, "shape", None))
        progress.notes[name] = [type(value).__qualname__, shape, _checksum(value)]
    return progress.notes[name]


def _described(value: Any, writer: Writer, path: str) -> list[Any]:
    """Return what can be compared of a parameter that is code: its name, and the numbers that it holds."""
    held = dict(getattr(value, "__dict__", {}))
    if isinstance(value, partial):
        held |= {"func": value.func, "args": value.args, **value.keywords}
    known: dict[str, Any] = {}
    for name, part in held.items():
        try:
            known[name] = writer.write(part, f"{path}.{name}")
        except TypeError:
            known[name] = _name_of(part)
    return [_name_of(value), known]


def _name_of(value: Any) -> str:
    return str(getattr(value, "__qualname__", type(value).__qualname__))
