"""Settings of a computation: the memory budget of its blocks, its threads, the device it streams through."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, replace
from numbers import Integral
from typing import Any

from clusterica.arrays._sklearn import count_threads

_UNITS = {"": 1, "B": 1}
_UNITS |= {f"{p}iB": 1024**i for i, p in enumerate("KMGT", 1)}
_UNITS |= {f"{p}B": 1000**i for i, p in enumerate("KMGT", 1)}


@dataclass(frozen=True)
class Config:
    """Settings in bytes and counts, as the walk over blocks reads them."""

    memory: int = 512 * 1024**2
    threads: int | None = None
    device: str | None = None
    memory_is_set: bool = False
    """Whether the user chose the budget; a GPU gets a larger one otherwise."""

    @property
    def n_threads(self) -> int:
        """Number of worker threads: the one asked for, or the cores this process may use."""
        return self.threads or count_threads()


_default = Config()
_KEEP: Any = object()  # stands for a setting that is not given, since None is a value
_active: ContextVar[Config | None] = ContextVar("clusterica_config", default=None)


def active_config() -> Config:
    """Return the settings in force here."""
    return _active.get() or _default


def get_config() -> dict[str, Any]:
    """Return the settings in force, as a dictionary.

    Returns
    -------
    dict
        ``memory`` (bytes), ``threads`` and ``device``; see :func:`config_context`.
    """
    settings = asdict(active_config())
    del settings["memory_is_set"]
    return settings


def set_config(
    *, memory: str | int = _KEEP, threads: int | None = _KEEP, device: str | None = _KEEP
) -> None:
    """Change the settings of the whole process.

    Parameters
    ----------
    memory, threads, device
        As in :func:`config_context`; what is not given stays as it is.
    """
    global _default
    _default = _changed(_default, memory=memory, threads=threads, device=device)


@contextmanager
def config_context(
    *, memory: str | int = _KEEP, threads: int | None = _KEEP, device: str | None = _KEEP
) -> Iterator[None]:
    """Change settings inside a ``with`` block; what is not given stays as it is.

    Parameters
    ----------
    memory : str or int
        Budget of working memory for the blocks of rows in flight, such as ``"2GiB"`` or a number of
        bytes. At first it is ``"512MiB"``, and a sixteenth of its memory for blocks on a CUDA device, if
        that is more. The data itself, the results and the learned parameters come on top.
    threads : int or None
        Worker threads on the CPU; None, the setting at first, takes every core this process may use,
        or as many as the environment variable OMP_NUM_THREADS says.
    device : str or None
        A torch device such as ``"cuda"`` through which arrays in host memory are streamed block by
        block, so that they may be larger than its memory. None, the setting at first, computes where
        the data lives. Data that is on a device already stays there in either case.

    Examples
    --------
    >>> import clusterica
    >>> with clusterica.config_context(memory="64MiB", threads=1):
    ...     clusterica.get_config()["memory"]
    67108864
    """
    token = _active.set(_changed(active_config(), memory=memory, threads=threads, device=device))
    try:
        yield
    finally:
        _active.reset(token)


def _changed(config: Config, **settings: Any) -> Config:
    settings = {name: value for name, value in settings.items() if value is not _KEEP}
    if "memory" in settings:
        settings |= {"memory": parse_bytes(settings["memory"]), "memory_is_set": True}
    threads = settings.get("threads")
    if threads is not None and not (_is_integer(threads) and threads >= 1):
        raise ValueError(f"threads={threads!r} must be a positive integer, or None for every core")
    return replace(config, **settings)


def _is_integer(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def parse_bytes(amount: str | int) -> int:
    """Turn ``"512MiB"``, ``"2 GB"`` or a number of bytes into bytes."""
    if _is_integer(amount):
        n_bytes = int(amount)
    else:
        match = re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*([A-Za-z]*)\s*", str(amount))
        if match is None or match[2] not in _UNITS:
            raise ValueError(
                f"memory={amount!r} is not an amount of memory; write '512MiB', '2GB' or bytes"
            )
        n_bytes = int(float(match[1]) * _UNITS[match[2]])
    if n_bytes < 2**16:
        raise ValueError(f"memory={amount!r} is too little to work in; give at least '64KiB'")
    return n_bytes
