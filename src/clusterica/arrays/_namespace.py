"""Which library an array belongs to, on which device it lies, and how to bring it elsewhere."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import array_api_compat
import numpy as np
import scipy.sparse as sp

from clusterica.arrays._config import active_config

Array = Any
"""An array of any library: NumPy, SciPy CSR, PyTorch, CuPy, Dask."""


def is_host_array(X: Any) -> bool:
    """Return True for what the compiled CPU code takes: NumPy arrays and SciPy sparse ones."""
    return isinstance(X, np.ndarray) or sp.issparse(X)


def is_cpu_tensor(X: Any) -> bool:
    """Return True for a torch tensor in host memory, which NumPy can see without a copy."""
    return array_api_compat.is_torch_array(X) and X.device.type == "cpu"


def namespace_of(*arrays: Array) -> ModuleType:
    """Return the array-API namespace of the arrays; NumPy for SciPy sparse ones."""
    dense = [a for a in arrays if not sp.issparse(a)]
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


def to_like(values: Array, reference: Array) -> Array:
    """Return values in the namespace and on the device of the reference array."""
    if is_host_array(reference):
        return to_host(values)
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
    def name(self) -> str:
        """``"cpu"`` for host memory, else the name of the device."""
        return "cpu" if self.on_host else str(device_of(self.like))

    @property
    def memory(self) -> int:
        """Bytes that the blocks in flight may take; a GPU with memory to spare gets more."""
        config = active_config()
        on_cuda = array_api_compat.is_torch_array(self.like) and self.like.device.type == "cuda"
        if config.memory_is_set or not on_cuda:
            return config.memory
        import torch

        total: int = torch.cuda.get_device_properties(self.like.device).total_memory
        return max(config.memory, total // 16)

    def put(self, values: Array) -> Array:
        """Bring an array here; one that is here already is returned as it is."""
        return to_like(values, self.like)


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
        raise ValueError(f"device={device!r} can't be used: {_why_not(device, error)}") from None


def _why_not(device: str, error: Exception) -> str:
    """Return a line that says why torch can't use a device; its own errors may have sixty."""
    import torch

    if device.partition(":")[0] == "cuda" and not torch.cuda.is_available():
        found = (
            "no NVIDIA GPU is found" if torch.version.cuda else "this PyTorch is a build for CPUs"
        )
        return f"{found}; use device='cpu', or install PyTorch with CUDA on a machine with a GPU"
    return str(error).partition("\n")[0].partition(". ")[0]
