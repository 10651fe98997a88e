"""Twins of ops for GPUs: compiled kernels of the same signature, used where the configuration asks for them.

An op names its twin with :func:`gpu_twin`. The walk replaces the op by it for float32 rows on a CUDA device,
since ops themselves read no configuration.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from importlib.util import find_spec
from typing import Any, TypeVar

import numpy as np

from clusterica.arrays._place import Place, active_config, is_cuda_tensor, working_dtype

Op = TypeVar("Op", bound=Callable[..., Any])

# The first generation of NVIDIA GPUs whose matrix units take bfloat16 and float32.
LEAST_CAPABILITY = (8, 0)


def gpu_twin(load: Callable[[], Callable[..., Any]]) -> Callable[[Op], Op]:
    """Name the twin of an op, beside the op.

    Parameters
    ----------
    load : callable
        ``load()`` imports the twin and returns it. The twin takes what the op takes, and a keyword
        ``precision``, that of the configuration.
    """

    def name(op: Op) -> Op:
        op.gpu_twin = load  # type: ignore[attr-defined]
        return op

    return name


def for_place(fn: Callable[..., Any], place: Place, dtype: np.dtype[Any]) -> Callable[..., Any]:
    """Return the twin of an op where the configuration asks for it and the device can run it, else the op."""
    if dtype != np.float32 or why_no_kernels(place.like) is not None:
        return fn
    twin: Callable[..., Any] = _twin(fn)
    return twin


def _twin(fn: Any) -> Any:
    if isinstance(fn, partial):
        inner = _twin(fn.func)
        return fn if inner is fn.func else partial(inner, *fn.args, **fn.keywords)
    if hasattr(fn, "fn"):  # the walk's wrappers of ops that give sums only, or values per row only
        inner = _twin(fn.fn)
        return fn if inner is fn.fn else type(fn)(inner)
    load = getattr(fn, "gpu_twin", None)
    return fn if load is None else partial(load(), precision=active_config().precision)


def why_no_kernels(like: Any) -> str | None:
    """Return why arrays like this one are computed by plain operations; None if by kernels.

    Raises ImportError where Triton is missing and kernels were asked for by name, or a precision of theirs.
    """
    config = active_config()
    asked = config.gpu_kernels
    if asked is None:
        return "gpu_kernels is None"
    if not is_cuda_tensor(like):
        return "the data is not on a CUDA device"
    if not _has_triton():
        if asked == "triton" or config.precision != "float32":
            named = (
                "gpu_kernels='triton'" if asked == "triton" else f"precision={config.precision!r}"
            )
            raise ImportError(f"{named} needs Triton; install it with: pip install triton")
        return "Triton is not installed (pip install triton)"
    import torch

    if torch.version.hip is not None:  # those of AMD are "cuda" devices of torch, too
        return "kernels are for GPUs of NVIDIA"
    capability = torch.cuda.get_device_capability(like.device)
    if capability < LEAST_CAPABILITY:
        name, needed = torch.cuda.get_device_name(like.device), ".".join(map(str, LEAST_CAPABILITY))
        return f"{name} has compute capability {capability[0]}.{capability[1]}, and kernels need {needed}"
    return None


@cache
def _has_triton() -> bool:
    # Asked at every walk, and slow: it looks through the folders of packages.
    return find_spec("triton") is not None


def describe_kernels(X: Any) -> str:
    """Return in words what computes on arrays like X under the settings in force.

    Parameters
    ----------
    X : array or tensor
        Its device and dtype count, not its values. Some settings of images have no kernels:
        ``gpu_kernels`` of :func:`config_context` names them.

    Returns
    -------
    str
        ``"Triton kernels, products in float16"``, or ``"plain array operations: "`` and why.

    Examples
    --------
    >>> import numpy as np
    >>> import clusterica
    >>> clusterica.describe_kernels(np.zeros((2, 3)))
    'plain array operations: the data is not on a CUDA device'
    """
    # Where they are worked on: host arrays on the device of the configuration, if it names one.
    why = why_no_kernels(Place.of_work(Place(X)).like)
    if why is None and working_dtype(X.dtype) != np.float32:
        why = f"kernels take float32, and {X.dtype} is computed in float64"
    if why is not None:
        return f"plain array operations: {why}"
    return f"Triton kernels, products in {active_config().precision}"
