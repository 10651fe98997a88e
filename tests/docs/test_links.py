"""No link is dead: in the HTML of estimators, and between the files of the repository."""

import pkgutil
import re
from importlib import import_module
from pathlib import Path

import pytest
from sklearn.base import BaseEstimator
from sklearn.utils import estimator_html_repr

import clusterica
from clusterica.arrays import Estimator, _sklearn
from clusterica.cluster import KMeans
from clusterica.images import ImageFeatures
from clusterica.preprocessing import Whitener

ROOT = Path(__file__).parents[2]


class OwnKMeans(KMeans):
    """A class of a user."""


def links(estimator):
    return re.findall(r'href="([^"]*)"', estimator_html_repr(estimator))


def test_estimators_link_to_their_pages(monkeypatch):
    # There is no public address yet, and so no link.
    assert _sklearn.documentation_address() == ""
    assert links(KMeans()) == []
    monkeypatch.setattr(_sklearn, "documentation_address", lambda: "https://example.org/docs")
    for estimator, name in (
        (KMeans(), "clusterica.cluster.KMeans"),
        (Whitener(), "clusterica.preprocessing.Whitener"),
        (ImageFeatures(), "clusterica.images.ImageFeatures"),
    ):
        assert f"https://example.org/docs/reference/generated/{name}.html" in links(estimator)
    assert links(OwnKMeans()) == []  # it has no page


def test_the_address_is_that_of_the_project(monkeypatch):
    class Metadata:
        def get_all(self, name):
            return {
                "Project-URL": [
                    "Source, https://example.org",
                    "Documentation, https://d.example.org/",
                ]
            }[name]

    monkeypatch.setattr(_sklearn, "metadata", lambda name: Metadata())
    assert _sklearn.documentation_address.__wrapped__() == "https://d.example.org"


def test_all_estimators_have_the_link():
    for package in pkgutil.iter_modules(clusterica.__path__):
        import_module(f"clusterica.{package.name}")
    todo, without = [BaseEstimator], []
    while todo:
        found = todo.pop()
        todo += found.__subclasses__()
        if re.match(r"clusterica\.(?!experiments)", found.__module__):
            without += [] if issubclass(found, Estimator) else [found]
    assert without == []


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"])
def test_files_that_are_linked_exist(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    targets = re.findall(r"\]\((?!https?:|mailto:|#)([^)#]+)", text)
    assert [target for target in targets if not (ROOT / target).exists()] == []
