"""The API reference lists exactly the public classes and functions."""

import importlib
import re
from collections import Counter
from pathlib import Path

import pytest

import clusterica

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "index.rst"
PACKAGES = (
    "clusterica",
    *(f"clusterica.{name}" for name in clusterica._SUBMODULES),
    "clusterica.networks.recipes",
    "clusterica.report.sections",
)


def listed():
    """Return the names that the reference has, by package."""
    names, package, inside = {}, None, False
    for line in REFERENCE.read_text(encoding="utf-8").splitlines():
        if match := re.fullmatch(r"\.\. currentmodule:: (\S+)", line):
            package = match[1]
        elif line.startswith(".. autosummary::"):
            inside = True
        elif line and not line.startswith(" "):
            inside = False
        elif inside and re.fullmatch(r"   \w+", line):
            names.setdefault(package, []).append(line.strip())
    return names


@pytest.mark.parametrize("package", PACKAGES)
def test_reference_lists_the_public_names(package):
    module = importlib.import_module(package)
    public = {name for name in module.__all__ if callable(getattr(module, name))}
    found = listed().get(package, [])
    assert len(found) == len(set(found)), "a name is listed twice"
    assert set(found) == public


def test_reference_lists_no_other_package():
    assert set(listed()) == set(PACKAGES)


def test_every_name_has_one_home():
    homes = Counter(
        name for package in PACKAGES for name in importlib.import_module(package).__all__
    )
    assert [name for name, n in homes.items() if n > 1] == []
