"""Where a computation runs: the settings for it, and the library and the device of an array.

The settings are the memory for blocks of rows, the number of threads, and a device to stream host arrays
through. A :class:`Place` is host memory or a device, and brings arrays there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import asdict, dataclass, replace
from functools import cache
from numbers import Integral
from pathlib import Path
from types import ModuleType
from typing import Any

import array_api_compat
import numpy as np
import scipy.sparse as sp

from clusterica.arrays._sklearn import count_threads

# --- Settings ----------------------------------------------------------------------------------------

# "MiB" is a power of 1024 and "MB" a power of 1000, as in Dask.
_UNITS = {"": 1, "B": 1}
_UNITS |= {f"{p}iB": 1024**i for i, p in enumerate("KMGT", 1)}
_UNITS |= {f"{p}B": 1000**i for i, p in enumerate("KMGT", 1)}


class NoBudget(int):
    """The bytes for blocks where nobody has set a budget; :func:`set_config` takes them for none again."""


@dataclass(frozen=True)
class Config:
    """Settings in bytes and counts, as the walk over blocks reads them."""

    memory: int = NoBudget(512 * 1024**2)
    threads: int | None = None
    device: str | None = None
    lazy: bool | str = "auto"
    gpu_kernels: str | None = "auto"
    precision: str = "float32"

    @property
    def memory_is_set(self) -> bool:
        """Whether the user chose the budget; a GPU gets a larger one otherwise."""
        return not isinstance(self.memory, NoBudget)

    @property
    def n_threads(self) -> int:
        """Number of worker threads: the one asked for, or the cores this process may use."""
        return self.threads or count_threads()


PRECISIONS = ("float32", "tf32", "bfloat16", "float16")
_default = Config()
_KEEP: Any = object()  # stands for a setting that is not given, since None is a value
# A context variable, and not a global: each thread and each task of asyncio has its own.
_active: ContextVar[Config | None] = ContextVar("clusterica_config", default=None)


def active_config() -> Config:
    """Return the current settings."""
    return _active.get() or _default


def get_config() -> dict[str, Any]:
    """Return the current settings, as a dictionary.

    Returns
    -------
    dict
        ``memory`` (bytes), ``threads``, ``device``, ``lazy``, ``gpu_kernels`` and ``precision``; see
        :func:`config_context`. ``set_config(**settings)`` restores them: the default of ``memory`` is not
        taken for a budget then.
    """
    return asdict(active_config())


def set_config(
    *,
    memory: str | int | None = _KEEP,
    threads: int | None = _KEEP,
    device: str | None = _KEEP,
    lazy: bool | str = _KEEP,
    gpu_kernels: str | None = _KEEP,
    precision: str = _KEEP,
) -> None:
    """Change the settings of the whole process.

    Parameters
    ----------
    memory, threads, device, lazy, gpu_kernels, precision
        As in :func:`config_context`; what is not given stays as it is.
    """
    global _default
    _default = _changed(
        _default,
        memory=memory,
        threads=threads,
        device=device,
        lazy=lazy,
        gpu_kernels=gpu_kernels,
        precision=precision,
    )


@contextmanager
def config_context(
    *,
    memory: str | int | None = _KEEP,
    threads: int | None = _KEEP,
    device: str | None = _KEEP,
    lazy: bool | str = _KEEP,
    gpu_kernels: str | None = _KEEP,
    precision: str = _KEEP,
) -> Iterator[None]:
    """Change settings inside a ``with`` block; what is not given stays as it is.

    Parameters
    ----------
    memory : str, int or None
        Budget of working memory for the blocks of rows in flight, such as ``"2GiB"`` or a number of
        bytes. None, the default, is 512 MiB, or a sixteenth of the memory of a CUDA device for blocks there,
        if that is more. The data itself, the results and the learned parameters come on top, and a matrix of
        products of all rows where a fit says that it has one: it may take a quarter of the machine's memory,
        half of a GPU's, or ``memory`` if that is set.
    threads : int or None
        Worker threads on the CPU; None, the default, takes every core this process may use,
        or as many as the environment variable OMP_NUM_THREADS says.
    device : str or None
        A torch device such as ``"cuda"`` on which arrays in host memory are processed. They are sent once
        where they fit half of its free memory, or half of ``memory`` if that is set, and else streamed
        block by block. None, the default, computes where the data is. Data that is on a device already stays
        there in either case.
    lazy : "auto" or bool
        Whether ``transform`` returns rows that are computed each time they are read, in place of an array.
        "auto", the default, does so for files and iterables of blocks whose result is larger than
        ``memory``; True for all NumPy arrays, files and blocks; False for none. Tensors always give
        tensors, and Dask arrays lazy Dask arrays.
    gpu_kernels : {"auto", "triton"} or None
        Whether K-means, the encoding of images and the likelihood of ClusterICA run on CUDA devices by
        fused kernels. "auto", the default, takes them where Triton is installed, "triton" is an error where
        it is not, and None takes plain tensor operations. float64 rows, GPUs of a compute capability
        below 8.0 and those of other makers than NVIDIA keep the plain operations;
        :func:`describe_kernels` says which are used. So does the encoding of images with
        ``pooling="gaussian"``, with other encoders than soft thresholds, triangle and sigmoid, with steps
        that are not of this library, or larger than ``memory``.
    precision : {"float32", "tf32", "bfloat16", "float16"}
        Precision of the products of fused kernels. "float32", the default, gives the results of float32:
        of K-means from 1,024 centres on, products of float16 with a proven bound on their error rule out most
        centres, and float32 decides. The others are faster, round rows and centres to fewer digits, and are
        an error on a CUDA device where Triton is not installed. Plain operations compute in float32 or
        float64 in all cases.

    Examples
    --------
    >>> import clusterica
    >>> with clusterica.config_context(memory="64MiB", threads=1):
    ...     clusterica.get_config()["memory"]
    67108864
    """
    # Reset by its token, so that nested contexts restore what was before them.
    changed = _changed(
        active_config(),
        memory=memory,
        threads=threads,
        device=device,
        lazy=lazy,
        gpu_kernels=gpu_kernels,
        precision=precision,
    )
    token = _active.set(changed)
    try:
        yield
    finally:
        _active.reset(token)


def _changed(config: Config, **settings: Any) -> Config:
    settings = {name: value for name, value in settings.items() if value is not _KEEP}
    memory = settings.get("memory")
    if "memory" in settings and not isinstance(memory, NoBudget):
        settings["memory"] = Config.memory if memory is None else parse_bytes(memory)
    threads = settings.get("threads")
    if threads is not None and not (_is_integer(threads) and threads >= 1):
        raise ValueError(f"threads={threads!r} must be a positive integer, or None for all cores")
    lazy = settings.get("lazy", "auto")
    if not (isinstance(lazy, bool) or lazy == "auto"):
        raise ValueError(f"lazy={lazy!r} must be 'auto', True or False")
    changed = replace(config, **settings)
    if changed.gpu_kernels not in (None, "auto", "triton"):
        raise ValueError(f"gpu_kernels={changed.gpu_kernels!r} must be 'auto', 'triton' or None")
    if changed.precision not in PRECISIONS:
        raise ValueError(f"precision={changed.precision!r} must be one of {PRECISIONS}")
    if changed.precision != "float32" and changed.gpu_kernels is None:
        raise ValueError(
            f"precision={changed.precision!r} is one of the fused kernels; set gpu_kernels='auto' too"
        )
    return changed


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
    # In less, a block has a few rows only, and calls cost more than the work in them.
    if n_bytes < 2**16:
        raise ValueError(f"memory={amount!r} is too little to work in; give at least '64KiB'")
    return n_bytes


# --- Arrays ------------------------------------------------------------------------------------------

Array = Any
"""An array of any library: NumPy, SciPy CSR, PyTorch, CuPy, Dask."""


def is_host_array(X: Any) -> bool:
    """Return True for what the compiled CPU code takes: NumPy arrays and SciPy sparse ones."""
    return isinstance(X, np.ndarray) or sp.issparse(X)


def is_cpu_tensor(X: Any) -> bool:
    """Return True for a torch tensor in host memory, which NumPy can see without a copy."""
    return array_api_compat.is_torch_array(X) and X.device.type == "cpu"


def is_cuda_tensor(X: Any) -> bool:
    """Return True for a torch tensor on a device that torch calls "cuda", which may be an AMD GPU."""
    return bool(array_api_compat.is_torch_array(X) and X.device.type == "cuda")


def is_tensor(X: Any) -> bool:
    """Return whether X is an array of another library than NumPy and SciPy, such as a torch tensor."""
    return (
        array_api_compat.is_array_api_obj(X)
        and not isinstance(X, np.ndarray | np.generic)
        and not sp.issparse(X)
    )


def check_not_masked(X: Any, name: str = "X") -> None:
    """Refuse a NumPy array with masked entries: whatever lies under the mask would be taken for data."""
    if isinstance(X, np.ma.MaskedArray) and np.ma.is_masked(X):
        drop = ", or drop their rows with np.ma.compress_rows(X)" if name == "X" else ""
        raise ValueError(
            f"{name} is a masked array with {int(np.ma.getmaskarray(X).sum())} masked entries, and the mask "
            f"would be lost; give them values with np.ma.filled({name}, value){drop}"
        )


def namespace_of(*arrays: Array) -> ModuleType:
    """Return the array-API namespace of the arrays; NumPy for SciPy sparse ones."""
    dense = [a for a in arrays if not sp.issparse(a)]
    # First, since it is by far the most common, and the general look-up takes microseconds for every op.
    if all(isinstance(a, np.ndarray | np.generic) for a in dense):
        return np
    return array_api_compat.array_namespace(*dense)


def device_of(X: Array) -> Any:
    """Return the device of an array (``"cpu"`` for NumPy and SciPy)."""
    return "cpu" if is_host_array(X) else array_api_compat.device(X)


def to_host(X: Array) -> Any:
    """Return an array in host memory as NumPy (sparse arrays as they are)."""
    if is_host_array(X) or np.isscalar(X):
        return X
    if array_api_compat.is_torch_array(X):
        tensor = X.detach().cpu()
        # NumPy has no bfloat16; float32 holds every one of its values.
        return (tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor).numpy()
    if array_api_compat.is_dask_array(X):
        return X.compute()
    if not array_api_compat.is_array_api_obj(X):
        return np.asarray(X)
    if array_api_compat.is_cupy_array(X):
        return array_api_compat.to_device(X, "cpu")
    home = array_api_compat.array_namespace(X).__array_namespace_info__().default_device()
    return np.asarray(array_api_compat.to_device(X, home))


def side_by_side(*values: Array) -> Array:
    """Return arrays of one number each as one array of float64, so that one transfer brings them home."""
    if is_host_array(values[0]) or np.isscalar(values[0]):
        return np.array([float(value) for value in values])
    xp = namespace_of(values[0])
    return xp.stack([xp.astype(value, xp.float64, copy=False) for value in values])


def to_like(values: Array, reference: Array) -> Array:
    """Return values in the namespace and on the device of the reference array."""
    if is_host_array(reference):
        return to_host(values)
    # No copy of what is there already: parameters are put in place at every walk.
    if type(values) is type(reference) and device_of(values) == device_of(reference):
        return values
    xp = namespace_of(reference)
    values = np.asarray(to_host(values), order="C")
    # torch shares memory with NumPy where it can, and must not with what is read-only.
    values = values if values.flags.writeable else values.copy()
    return xp.asarray(values, device=device_of(reference))


def working_dtype(dtype: Any) -> np.dtype[Any]:
    """Return the NumPy dtype to compute in: float32 where it holds every value of the input, else float64."""
    name = dtype.name if isinstance(dtype, np.dtype) else str(dtype).rsplit(".", maxsplit=1)[-1]
    # Its 24 bits hold all integers of 16 bits, but not those of 32.
    exact_in_float32 = (
        "float32",
        "float16",
        "bfloat16",
        "bool",
        "int8",
        "uint8",
        "int16",
        "uint16",
    )
    return np.dtype(np.float32 if name in exact_in_float32 else np.float64)


class Place:
    """Where work is done or where results go: host memory, or the device of an array.

    Parameters
    ----------
    like : array, default=None
        An array of the library and on the device of the place; None stands for NumPy.
    """

    def __init__(self, like: Array | None = None) -> None:
        self.like = np.empty(0) if like is None or is_host_array(like) else like

    @classmethod
    def of_work(cls, home: Place) -> Place:
        """Return where data of this home is worked on: where it is, or the device of the configuration."""
        device = active_config().device
        if not home.on_host:
            return home
        return cls() if device is None else cls(on_torch_device(np.empty(0), device))

    @property
    def is_numpy(self) -> bool:
        """Whether arrays here are NumPy or CSR, which worker threads and compiled code take."""
        return is_host_array(self.like)

    @property
    def on_host(self) -> bool:
        """Whether arrays here are in host memory: NumPy, CSR, or tensors of the CPU."""
        return self.is_numpy or is_cpu_tensor(self.like)

    @property
    def on_cuda(self) -> bool:
        """Whether arrays here are tensors of a CUDA device."""
        return is_cuda_tensor(self.like)

    def launching(self) -> AbstractContextManager[Any]:
        """Return a context in which Triton launches kernels on the device of this place."""
        if not self.on_cuda:
            return nullcontext()
        import torch

        device: AbstractContextManager[Any] = torch.cuda.device(self.like.device)
        return device

    @property
    def name(self) -> str:
        """``"cpu"`` for host memory, else the name of the device."""
        return "cpu" if self.on_host else str(device_of(self.like))

    @property
    def memory(self) -> int:
        """Bytes that the blocks in flight may take; a GPU with memory to spare gets more."""
        config = active_config()
        if config.memory_is_set or not self.on_cuda:
            return config.memory
        import torch

        # A sixteenth leaves room for the data itself and the results.
        total: int = torch.cuda.get_device_properties(self.like.device).total_memory
        return max(config.memory, total // 16)

    @property
    def fit_memory(self) -> int:
        """Bytes that a matrix may take that stays for a whole fit, such as one of products of all rows.

        The budget if it is set, else a quarter of the memory of this machine or half of that of a GPU. It is
        not a share of what is free at the time: results may depend on it.
        """
        config = active_config()
        if config.memory_is_set:
            return config.memory
        if self.on_cuda:
            import torch

            total: int = torch.cuda.get_device_properties(self.like.device).total_memory
            return max(config.memory, total // 2)
        return max(config.memory, host_memory() // 4)

    def empty(self, shape: tuple[int, ...], dtype: Any = np.float32) -> Array:
        """Return an array here to be filled: of NumPy in host memory, else on the device."""
        if self.on_host:
            return np.empty(shape, dtype)
        xp = namespace_of(self.like)
        return xp.empty(shape, dtype=getattr(xp, np.dtype(dtype).name), device=device_of(self.like))

    def put(self, values: Array) -> Array:
        """Bring an array here; one that is here already is returned as it is."""
        return to_like(values, self.like)


@cache
def host_memory() -> int:
    """Return the bytes of memory that this process may use at most; 0 where the system does not say."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # not on Windows
        return 0
    limits = group_limits()
    with suppress(AttributeError, ImportError):  # not on every system
        import resource

        # That of "ulimit -v", which batch systems set for a job; none is a negative number.
        limits.append(resource.getrlimit(resource.RLIMIT_AS)[0])
    return min([total, *(limit for limit in limits if limit >= 0)])


def group_limits(root: Path = Path("/")) -> list[int]:
    """Return the limits of the control groups of this process, such as that of a container, and those above.

    Those of version 2 are in ``memory.max``, and those of version 1 under ``memory``.
    """
    top = root / "sys" / "fs" / "cgroup"
    # A container sees its own group at the top.
    files = {top / "memory.max", top / "memory" / "memory.limit_in_bytes"}
    for line in _read(root / "proc" / "self" / "cgroup").splitlines():
        # Such as "0::/user.slice/job" of version 2, and "4:memory:/job" of version 1.
        _, _, named = line.partition(":")
        controllers, _, group = named.partition(":")
        place = Path(group.lstrip("/"))
        for part in (place, *place.parents):
            if not controllers:
                files.add(top / part / "memory.max")
            elif "memory" in controllers.split(","):
                files.add(top / "memory" / part / "memory.limit_in_bytes")
    # "max" stands for no limit in version 2, and a number larger than any memory in version 1.
    found = [_read(path).strip() for path in files]
    return [int(limit) for limit in found if limit.isdigit()]


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def on_torch_device(X: np.ndarray, device: str) -> Array:
    """Return a tensor on a device, or say why there is none."""
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            f"device={device!r} needs PyTorch; install it with: pip install 'clusterica[torch]'"
        ) from error
    try:
        return torch.asarray(X, device=device)
    except (RuntimeError, AssertionError) as error:
        # A line of it says why; the errors of torch may have sixty.
        why = str(error).partition("\n")[0].partition(". ")[0]
        if device.partition(":")[0] == "cuda" and not torch.cuda.is_available():
            found = (
                "no NVIDIA GPU is found"
                if torch.version.cuda
                else "this PyTorch is a build for CPUs"
            )
            why = f"{found}; use device='cpu', or install PyTorch with CUDA on a machine with a GPU"
        raise ValueError(f"device={device!r} can't be used: {why}") from None
