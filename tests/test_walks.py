"""How many files two typical calls run through, and that no call goes up the storeys.

``python tests/test_walks.py`` lists the files of both walks, storey by storey.
"""

import functools
import inspect
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import clusterica
from clusterica.cluster import SphericalKMeans
from clusterica.images import ImageFeatures
from clusterica.linear import LinearSVC

SOURCE = Path(clusterica.__file__).parent
PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"


class Walk(NamedTuple):
    """The files whose functions ran, and calls of something higher as (caller, called)."""

    files: frozenset
    upward: frozenset


def storeys():
    """Return the height of each package, from the layers of the import contract."""
    contracts = tomllib.loads(PYPROJECT.read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract["id"] == "storeys")
    return {
        package.strip(" ()"): height
        for height, layer in enumerate(reversed(layers))
        for package in layer.replace(":", "|").split("|")
    }


def trace(call):
    """Run a call and return its walk; functions that Numba runs while it compiles do not count."""
    heights, files, upward = storeys(), set(), set()

    def watch(frame, event, _):
        code = frame.f_code
        # The body of a module or a class runs once, when it is imported.
        if event != "call" or not code.co_flags & inspect.CO_OPTIMIZED or not is_ours(frame):
            return
        caller = frame.f_back
        while caller is not None and not is_ours(caller):
            if "numba" in Path(caller.f_code.co_filename).parts:
                return
            caller = caller.f_back
        files.add(file_of(frame))
        if (
            caller is not None
            and height(caller) < height(frame)
            and not code.co_flags & inspect.CO_GENERATOR  # an iterable, handed down as data
            and not code.co_name.startswith("__")  # what Python and scikit-learn ask of any object
            and not was_handed_down(code, caller)
        ):
            upward.add((f"{file_of(caller)}:{caller.f_code.co_name}", name_of(frame)))

    def height(frame):
        package = Path(file_of(frame)).parts[0]
        return heights.get(package, len(heights))  # clusterica/__init__.py is above all

    call()  # compiles, and imports what is imported at first use
    sys.setprofile(watch)
    try:
        # In one thread: worker threads that are there already would not be watched.
        with clusterica.config_context(threads=1):
            call()
    finally:
        sys.setprofile(None)
    return Walk(frozenset(files), frozenset(upward))


def is_ours(frame):
    return frame.f_code.co_filename.startswith(str(SOURCE))


def file_of(frame):
    return Path(frame.f_code.co_filename).relative_to(SOURCE).as_posix()


def name_of(frame):
    return f"{file_of(frame)}:{frame.f_code.co_qualname}"


def was_handed_down(code, caller):
    """Whether the caller got the function itself as a value, that is, as a callback.

    A callback is an argument or a closure variable of the caller, or an attribute of its ``self``. A method
    that the caller looks up on an object of a higher package is not: the caller has to know that package.
    """
    values = dict(caller.f_locals)
    values |= getattr(values.get("self"), "__dict__", {})
    return any(code in codes_of(value) for value in values.values())


def codes_of(value):
    """Return the code of a function, method, partial or object that can be called, and of what it wraps."""
    while isinstance(value, functools.partial):
        value = value.func
    if not callable(value):
        return set()
    function = value if inspect.isroutine(value) else type(value).__call__
    return {getattr(f, "__code__", None) for f in (function, inspect.unwrap(function))}


def fit_rows():
    X = np.random.default_rng(0).standard_normal((3000, 16))
    return SphericalKMeans(8, max_iter=3, tol=1.0, random_state=0).fit(X)


def fit_images():
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (400, 12, 12, 3), dtype=np.uint8)
    labels = np.arange(400) % 3
    features = ImageFeatures(n_filters=8, patch_size=4, n_patches=2000, random_state=0)
    X = features.fit(images).transform(images)
    return LinearSVC(C="auto", random_state=0).fit(X, labels).predict(X)


@pytest.mark.parametrize(("call", "most"), [(fit_rows, 14), (fit_images, 32)])
def test_a_walk_touches_few_files_and_never_goes_up(call, most):
    walk = trace(call)
    assert len(walk.files) <= most, "\n".join(sorted(walk.files))
    assert not walk.upward, "\n".join(f"{a} calls {b}" for a, b in sorted(walk.upward))


def test_a_call_of_a_method_from_above_is_not_taken_for_a_callback():
    class Above:
        def method(self):
            return sys._getframe().f_back

    def callback(fn):
        return fn()

    above = Above()
    code = Above.method.__code__
    assert was_handed_down(code, callback(above.method))

    def knows(thing):
        return thing.method()

    assert not was_handed_down(code, knows(above))


if __name__ == "__main__":
    order = storeys()
    for call in (fit_rows, fit_images):
        walk = trace(call)
        print(f"{call.__name__}: {len(walk.files)} files")
        for file in sorted(walk.files, key=lambda f: (-order.get(Path(f).parts[0], 99), f)):
            print(f"  {file}")
        for below, above in sorted(walk.upward):
            print(f"  UP: {below} calls {above}")
