"""The API reference lists every public class and function of learners, and each has one home."""

import importlib
import re
from collections import Counter
from inspect import isclass, isfunction
from pathlib import Path

import pytest

INDEX = Path(__file__).parents[2] / "docs" / "reference" / "index.rst"
PACKAGES = (
    "cluster",
    "contrasts",
    "dictionaries",
    "encoders",
    "ica",
    "images",
    "kernels",
    "linear",
    "preprocessing",
    "rica",
)


def listed():
    """Return the names of the reference, by package."""
    found, package = {}, ""
    for line in INDEX.read_text(encoding="utf-8").splitlines():
        if line.startswith(".. currentmodule::"):
            package = line.split()[-1].removeprefix("clusterica").removeprefix(".")
        elif re.fullmatch(r"   [A-Za-z]\w*", line):
            found.setdefault(package, []).append(line.strip())
    return found


@pytest.mark.parametrize("package", PACKAGES)
def test_all_that_is_public_is_listed(package):
    module = importlib.import_module(f"clusterica.{package}")
    values = {name: getattr(module, name) for name in module.__all__}
    public = {name for name, value in values.items() if isclass(value) or isfunction(value)}
    assert sorted(public - set(listed()[package])) == []


def test_every_name_has_one_home():
    names = Counter(
        name
        for package in PACKAGES
        for name in importlib.import_module(f"clusterica.{package}").__all__
    )
    assert [name for name, n in names.items() if n > 1] == []
