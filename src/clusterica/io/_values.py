"""From the values of an estimator to JSON and named arrays, and back.

Plain values are stored as they are. All others become an object whose key names their kind:
``{"array": name}``, ``{"tuple": [...]}``, ``{"estimator": "package:Class", "params": ..., "fitted": ...}``.
"""

from __future__ import annotations

import dataclasses
import importlib
import math
import sys
from collections.abc import Iterable
from typing import Any

import array_api_compat
import numpy as np
from sklearn.base import BaseEstimator

from clusterica.arrays import device_of, to_host
from clusterica.io._sealed import ModelFileError, damaged

_PLAIN = (bool, int, str, type(None))
# Generators whose state may be restored; a file cannot name anything else of numpy.random.
_BIT_GENERATORS = ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")
# Positions in the buffers of generators, which NumPy does not check: beyond them it would read other memory.
_POSITIONS = {"MT19937": ("pos", 624), "Philox": ("buffer_pos", 4)}
# Attributes that callbacks leave on an estimator; a model does not need them.
_PASSING = ("_skl_callbacks", "_callback_fit_ctx", "_parent_callback_ctx")


class Writer:
    """Converts values to JSON and collects their arrays."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        self._names: dict[int, str] = {}
        self._kept: list[Any] = []  # keeps the objects alive, so that no id is reused

    def write(self, value: Any, path: str) -> Any:
        """Return JSON for a value; error messages call it by its path."""
        # The order matters: np.float64 is a float, bool an int, and an estimator may be a dataclass.
        if isinstance(value, BaseEstimator):
            return self._estimator(value, path)
        if isinstance(value, np.ndarray):
            return self._array(value, path)
        if isinstance(value, np.generic) and not isinstance(value, np.longdouble):
            return {"scalar": self.write(value.item(), path), "dtype": value.dtype.str}
        if isinstance(value, _PLAIN):
            return value
        if isinstance(value, float):
            # JSON has no NaN and no infinity.
            return value if math.isfinite(value) else {"float": str(value)}
        if isinstance(value, dict):
            # Pairs: keys of JSON are strings, and those of a dict may be numbers.
            return {
                "dict": [
                    [self.write(k, path), self.write(v, f"{path}[{k!r}]")] for k, v in value.items()
                ]
            }
        if hasattr(value, "_fields") and hasattr(value, "_asdict"):  # a named tuple
            return {"named": _name_of(value, path), "fields": self._fields(value._asdict(), path)}
        if isinstance(value, tuple | list):
            items = [self.write(item, f"{path}[{i}]") for i, item in enumerate(value)]
            return {"tuple" if isinstance(value, tuple) else "list": items}
        if isinstance(value, np.random.Generator | np.random.RandomState):
            return self._random(value, path)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return {"data": _name_of(value, path), "fields": self._fields(vars(value), path)}
        if isinstance(value, np.dtype):
            return {"dtype": value.str}
        if array_api_compat.is_torch_array(value):
            name = self._keep(to_host(value), value, path)
            return {"tensor": name, "device": str(device_of(value))}
        raise TypeError(
            f"{path} is a {type(value).__name__}, which can't be saved without code; model files hold "
            "numbers, strings, arrays and estimators of clusterica and scikit-learn"
        )

    def _estimator(self, value: BaseEstimator, path: str) -> dict[str, Any]:
        params = value.get_params(deep=False)
        fitted = {k: v for k, v in vars(value).items() if k not in params and k not in _PASSING}
        return {
            "estimator": _name_of(value, path),
            "params": self._fields(params, path),
            "fitted": self._fields(fitted, path),
        }

    def _array(self, value: np.ndarray, path: str) -> dict[str, Any]:
        if value.dtype.kind == "U":
            # Code points, so that the memory of the array is that of its part of the file.
            width = value.dtype.itemsize // 4
            codes = np.array(value, dtype=f"=U{width}", order="C")
            points = np.frombuffer(codes.tobytes(), np.uint32).reshape(*value.shape, width)
            return {"text": self._keep(points, value, path)}
        # Arrays of objects and of strings of any length have no place in the binary part of the file.
        if value.dtype.kind in "OT":
            items = value.ravel().tolist()
            if not all(isinstance(item, str | int | float | bool | None) for item in items):
                raise TypeError(
                    f"{path} is an array of objects; model files take numbers and strings"
                )
            return {"items": items, "shape": list(value.shape), "dtype": value.dtype.kind}
        if value.dtype.kind not in "biuf" or value.dtype.itemsize > 8:
            raise TypeError(f"{path} is an array of {value.dtype}; model files take real numbers")
        name = self._keep(value, value, path)
        # The order in memory is kept: in another order sums may differ in their last bits.
        if value.flags.f_contiguous and not value.flags.c_contiguous:
            return {"array": name, "order": "F"}
        return {"array": name}

    def _keep(self, values: np.ndarray, owner: Any, path: str) -> str:
        """Store an array once, under the path where it was found first."""
        if id(owner) not in self._names:
            self._kept.append(owner)
            self._names[id(owner)] = path
            # The format stores little-endian numbers; those of other machines are swapped.
            self.arrays[path] = values.astype(values.dtype.newbyteorder("="), copy=False)
        return self._names[id(owner)]

    def _random(self, value: Any, path: str) -> dict[str, Any]:
        legacy = isinstance(value, np.random.RandomState)
        state = (value._bit_generator if legacy else value.bit_generator).state
        return {"random": self.write(state, path), "legacy": legacy}

    def _fields(self, values: dict[str, Any], path: str) -> dict[str, Any]:
        return {name: self.write(value, f"{path}.{name}") for name, value in values.items()}


class UnusableDeviceError(ValueError):
    """The device of a tensor can't be used on this machine."""


class Reader:
    """Converts JSON and arrays back to values."""

    def __init__(self, arrays: dict[str, np.ndarray], device: str | None, source: str) -> None:
        self.of_sklearn: set[str] = set()
        self._arrays, self._device, self._source = arrays, device, source
        # Texts by name: each is made once, however often the file names it, so that it can't fill the memory.
        self._texts: dict[str, np.ndarray] = {}

    def read_all(self, value: Any) -> Any:
        """Return the value of some JSON; whatever is wrong with it ends in a ModelFileError."""
        try:
            return self.read(value)
        except (ModelFileError, ImportError, UnusableDeviceError):
            raise
        # A checksum does not prove that clusterica wrote the file: missing keys, wrong types, values out of
        # range and deep nesting raise almost anything.
        except Exception as error:
            reason = f"{error} is missing" if isinstance(error, KeyError) else error
            raise damaged(self._source, f"{type(error).__name__}: {reason}") from error

    def read(self, value: Any) -> Any:
        """Return the value of some JSON."""
        if isinstance(value, float | bool | int | str | None):
            return value
        kind = next((k for k in _KINDS if isinstance(value, dict) and k in value), None)
        if kind is None:
            raise ModelFileError(
                f"{self._source} contains something that this version can't read: {value!r:.80}"
            )
        return getattr(self, f"_{kind}")(value)

    def _estimator(self, value: dict[str, Any]) -> BaseEstimator:
        cls: Any = self._class_of(value["estimator"], ("clusterica.", "sklearn."))
        if not issubclass(cls, BaseEstimator):
            raise ModelFileError(
                f"{self._source} names {value['estimator']}, which is not an estimator"
            )
        params = self._read_fields(value["params"])
        if cls.__module__.startswith("sklearn."):
            self.of_sklearn.add(cls.__name__)
        else:
            params = self._with_newer(cls, cls._get_param_names(), params)
        model = cls(**params)
        # Not setattr: fitted attributes are set as they were, without running code of properties.
        vars(model).update(self._read_fields(value["fitted"]))
        return model

    def _array(self, value: dict[str, Any]) -> np.ndarray:
        found = self._arrays[value["array"]]
        if value.get("order") != "F":
            return found
        # Once for each name: arrays that were one object stay one.
        if not found.flags.f_contiguous:
            found = self._arrays[value["array"]] = np.asfortranarray(found)
        return found

    def _text(self, value: dict[str, Any]) -> np.ndarray:
        name = value["text"]
        if name not in self._texts:
            self._texts[name] = _characters(self._arrays[name])
        return self._texts[name]

    def _items(self, value: dict[str, Any]) -> np.ndarray:
        items = value["items"]
        if not all(isinstance(item, str | int | float | bool | None) for item in items):
            raise ValueError("an array of objects holds something else than numbers and strings")
        # Only these two: the memory of other types may be far larger than the file.
        kinds: dict[str, Any] = {"O": np.dtype(object), "T": np.dtypes.StringDType()}
        found: np.ndarray = np.array(items, dtype=kinds[value["dtype"]]).reshape(value["shape"])
        return found

    def _tensor(self, value: dict[str, Any]) -> Any:
        try:
            import torch
        except ImportError as error:
            raise ImportError(
                f"{self._source} holds tensors and needs PyTorch; install it with: "
                "pip install 'clusterica[torch]'"
            ) from error
        device = self._device or value["device"]
        try:
            return torch.asarray(self._arrays[value["tensor"]], device=device)
        except (RuntimeError, AssertionError):
            # Not torch's own message, which may have sixty lines.
            raise UnusableDeviceError(
                f"the model was on device {device!r}, which can't be used here; give load(path, device='cpu')"
            ) from None

    def _scalar(self, value: dict[str, Any]) -> Any:
        dtype = np.dtype(str(value["dtype"]))
        if dtype.kind not in "biufU":
            raise ValueError(f"a scalar has the type {dtype}")
        return dtype.type(self.read(value["scalar"]))

    def _float(self, value: dict[str, Any]) -> float:
        return float(value["float"])

    def _dtype(self, value: dict[str, Any]) -> Any:
        return np.dtype(str(value["dtype"]))

    def _list(self, value: dict[str, Any]) -> list[Any]:
        return [self.read(item) for item in value["list"]]

    def _tuple(self, value: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(self.read(item) for item in value["tuple"])

    def _dict(self, value: dict[str, Any]) -> dict[Any, Any]:
        return {self.read(k): self.read(v) for k, v in value["dict"]}

    def _named(self, value: dict[str, Any]) -> tuple[Any, ...]:
        cls = self._class_of(value["named"], ("clusterica.",))
        if not (issubclass(cls, tuple) and hasattr(cls, "_fields")):
            raise ModelFileError(
                f"{self._source} names {value['named']}, which is not a named tuple"
            )
        return cls(**self._with_newer(cls, cls._fields, self._read_fields(value["fields"])))

    def _data(self, value: dict[str, Any]) -> Any:
        cls = self._class_of(value["data"], ("clusterica.",))
        if not dataclasses.is_dataclass(cls):
            raise ModelFileError(f"{self._source} names {value['data']}, which is not plain data")
        names = [field.name for field in dataclasses.fields(cls)]
        return cls(**self._with_newer(cls, names, self._read_fields(value["fields"])))

    def _random(self, value: dict[str, Any]) -> Any:
        state = self.read(value["random"])
        if state["bit_generator"] not in _BIT_GENERATORS:
            raise ModelFileError(
                f"{self._source} names an unknown generator {state['bit_generator']!r}"
            )
        name, last = _POSITIONS.get(state["bit_generator"], (None, 0))
        if name is not None and not 0 <= state.get(name, state["state"].get(name)) <= last:
            raise ValueError(f"the position of a generator is not from 0 to {last}")
        bits = getattr(np.random, state["bit_generator"])()
        bits.state = state
        return np.random.RandomState(bits) if value["legacy"] else np.random.Generator(bits)

    def _with_newer(self, cls: Any, names: Iterable[str], stored: dict[str, Any]) -> dict[str, Any]:
        """Add the parameters that are newer than the file, with values that do what was done before them.

        A default of today may do something else. So the class states these values, in ``_in_older_files``.
        """
        older = getattr(cls, "_in_older_files", {})
        missing = [name for name in names if name not in stored]
        unknown = [name for name in missing if name not in older]
        if unknown:
            raise damaged(self._source, f"{unknown[0]!r} of {cls.__name__} is missing")
        return stored | {name: older[name] for name in missing}

    def _read_fields(self, values: dict[str, Any]) -> dict[str, Any]:
        return {name: self.read(value) for name, value in values.items()}

    def _class_of(self, name: str, packages: tuple[str, ...]) -> type:
        """Import a class, of one of these packages only."""
        module, _, qualified = name.partition(":")
        # Tests and scripts are modules, too, but importing them may do anything.
        scripts = any(p.startswith(("__", "test", "conftest")) for p in module.split("."))
        if not module.startswith(packages) or scripts:
            raise ModelFileError(f"{self._source} names {name}, and only {packages} may be named")
        try:
            found = getattr(importlib.import_module(module), qualified)
        except (ImportError, AttributeError) as error:
            raise ModelFileError(
                f"{self._source} needs {name}, which this version does not have; update clusterica"
            ) from error
        # A package may import other things than its own classes; those must not be reached.
        if not isinstance(found, type) or not f"{found.__module__}.".startswith(f"{module}."):
            raise ModelFileError(
                f"{self._source} names {name}, which is not a class of that module"
            )
        return found


_KINDS = (
    "estimator",
    "array",
    "text",
    "items",
    "tensor",
    "scalar",
    "float",
    "list",
    "tuple",
    "dict",
    "named",
    "data",
    "random",
    "dtype",
)


def _characters(points: np.ndarray) -> np.ndarray:
    """Return an array of texts of one width, from code points along its last axis."""
    if points.dtype != np.uint32 or points.max(initial=0) > sys.maxunicode:
        raise ValueError("a text holds numbers that are not characters")
    width = points.shape[-1]
    return np.frombuffer(points.tobytes(), f"=U{width}").reshape(points.shape[:-1]).copy()


def _name_of(value: Any, path: str) -> str:
    """Return ``package:Class`` for a public class, so that files outlive private modules, or its module."""
    cls = type(value)
    allowed = ("clusterica.", "sklearn.") if isinstance(value, BaseEstimator) else ("clusterica.",)
    if not cls.__module__.startswith(allowed) or "." in cls.__qualname__:
        raise TypeError(
            f"{path} is a {cls.__module__}.{cls.__qualname__}; a model file names only classes of "
            "clusterica and estimators of scikit-learn, since it carries no code"
        )
    package = ".".join(cls.__module__.split(".")[:2])
    # A class that moves to another file of its package can still be found.
    public = getattr(sys.modules[package], cls.__qualname__, None) is cls
    return f"{package if public else cls.__module__}:{cls.__qualname__}"
