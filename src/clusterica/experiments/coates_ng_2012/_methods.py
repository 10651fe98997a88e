"""The rows of Coates & Ng's tables of accuracy: one layer, networks of two and three, and our recipes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from clusterica.arrays import to_host
from clusterica.cluster import KMeans
from clusterica.dictionaries import SparseCoding
from clusterica.encoders import SparseEncoder
from clusterica.experiments._checks import reached
from clusterica.experiments._context import Context
from clusterica.experiments._recognition import (
    POOLINGS,
    Constants,
    Labeled,
    Split,
    last_layer,
    neighbor_labels,
    percent,
    rows_of,
)
from clusterica.experiments._result import Check
from clusterica.images import ImageFeatures
from clusterica.linear import LinearSVC
from clusterica.networks import Committee, DependencyGroups, FeatureNetwork, ImageClassifier, Layer
from clusterica.networks.recipes import make_classifier

NOT_RUN = "not run"
DEFAULT_POOLING = "sum over 2 x 2"
CODES: dict[str, dict[str, Any]] = {
    "VQ": {"learner": KMeans(max_iter=50, compute_labels=False), "encoder": "soft-threshold"},
    # A lasso for every patch takes long: those at every other position, in each direction.
    "sparse coding": {
        "learner": SparseCoding(alpha=1.0, batch_size=5000, max_iter=10),
        "encoder": SparseEncoder(alpha=1.0),
        "stride": 2,
    },
}
"""Systems that the paper quotes: K-means with soft thresholds, and sparse codes of learned atoms."""


class Method(NamedTuple):
    """One row of a table."""

    name: str
    paper: str
    """The paper's figure, in percent."""
    n_filters: int
    """Filters of the first layer."""
    mirrored: bool = False
    """Whether the classifier also learns from mirror images."""
    pooled_by_choice: bool = False
    """Whether validation chooses the pooling."""
    n_layers: int = 1
    measure: str = ""
    """How layers after the first find their fields, as DependencyGroups calls it."""
    codes: str = ""
    """Name in `CODES`: what one layer learns and how it encodes, in place of the paper's own."""
    recipe: str = ""
    """Name in ``clusterica.networks.recipes``; the other fields then do not matter."""

    @property
    def one_layer(self) -> bool:
        """Whether it is one layer of the paper's own, which a table cannot do without."""
        return self.n_layers == 1 and not self.codes and not self.recipe


def network_methods(figures: Iterable[str]) -> tuple[Method, ...]:
    """Return the four networks of a table with the paper's figures."""
    names = {
        "2 layers, single field": (2, "all"),
        "2 layers, random fields": (2, "random"),
        "2 layers, learned fields": (2, "energy"),
        "3 layers, learned fields": (3, "energy"),
    }
    return tuple(
        Method(name, figure, 1600, n_layers=n_layers, measure=measure)
        for (name, (n_layers, measure)), figure in zip(names.items(), figures, strict=True)
    )


RECIPES = (
    Method("Recipe “accurate”", "", 4096, recipe="accurate"),
    Method("Recipe “best”", "", 4096, recipe="best"),
)


def network_settings(ctx: Context) -> dict[str, Any]:
    """Return the sizes of the layers after the first; those of Coates & Ng's NIPS paper of 2011."""
    return {
        "first_pool": 3,
        "n_fields": ctx.choose(full=32, quick=3),
        "field_size": ctx.choose(full=200, quick=10),
        "field_filters": ctx.choose(full=100, quick=8),
        "field_patches": ctx.choose(full=50_000, quick=2000),
    }


def make_features(
    method: Method,
    settings: Mapping[str, Any],
    constants: Constants,
    *,
    seed: int,
    pooling: str = DEFAULT_POOLING,
) -> ImageFeatures | FeatureNetwork:
    """Return the features of a row, not fitted yet.

    Parameters
    ----------
    method : Method
        The row.
    settings : mapping
        Patch size and number of patches of the first layer, those of :func:`network_settings`, and the stride
        of sparse coding where it is not that of `CODES`.
    constants : Constants
        Of the first layer's contrast normalisation and whitening.
    seed : int
        Seed of the features.
    pooling : str, default="sum over 2 x 2"
        How codes are pooled, a name in ``POOLINGS``.
    """
    first = {
        "patch_size": settings["patch_size"],
        "n_patches": settings["n_patches"],
        "random_state": seed,
        **constants.steps(),
    }
    if method.n_layers == 1:
        codes = dict(CODES[method.codes]) if method.codes else {}
        if "stride" in codes:
            codes["stride"] = settings.get("sparse_stride", codes["stride"])
        return ImageFeatures(method.n_filters, **first, **codes, **POOLINGS[pooling])
    how, grid = POOLINGS[pooling]["pooling"], POOLINGS[pooling]["grid"]
    n_fields = settings["n_fields"]
    above = Layer(
        settings["field_filters"] * (n_fields if method.measure == "all" else 1),
        patch_size=2,
        pool_size=2,
        pooling=how,
        fields=DependencyGroups(settings["field_size"], n_groups=n_fields, measure=method.measure),
        n_patches=settings["field_patches"],
    )
    layer = Layer(method.n_filters, pool_size=settings["first_pool"], pooling=how, **first)
    return FeatureNetwork([layer, *[above] * (method.n_layers - 1)], grid=grid, random_state=seed)


def make_recipe(ctx: Context, method: Method, images: Any) -> ImageClassifier | Committee:
    """Return the classifier of a recipe for such images, not fitted yet; a quick run has fewer filters."""
    n_filters = ctx.choose(full=None, quick=method.n_filters)
    shape = tuple(images.shape[1:])
    return make_classifier(method.recipe, shape, n_filters=n_filters, random_state=ctx.seed)


class Row(NamedTuple):
    """Accuracies of a row, one for each draw of labels or fold; those it does not have are empty."""

    accuracies: list[float]
    C: list[float]
    last: list[float]
    neighbors: list[float]

    def add(self, features: Any, classifier: LinearSVC, known: Labeled, rest: Labeled) -> None:
        """Score a fitted classifier on the features of other images, and two simpler readouts beside it."""
        self.accuracies.append(_accuracy(classifier.predict(rest.images), rest))
        self.C.append(float(classifier.C_))
        neighbors = neighbor_labels(known.images, known.labels, rest.images)
        self.neighbors.append(_accuracy(neighbors, rest))
        if isinstance(features, FeatureNetwork):
            columns = last_layer(features)
            alone = LinearSVC(C="auto", random_state=0)
            alone.fit(known.images[:, columns], known.labels)
            self.last.append(_accuracy(alone.predict(rest.images[:, columns]), rest))


class Remembered:
    """A fitted network that takes numbers of images; features of all are computed once for each setting.

    Folds have most images in common: without this each image would be encoded for every fold again.
    """

    def __init__(self, network: FeatureNetwork, images: Any) -> None:
        self.network, self.images = network, images
        self.found: dict[str, Any] = {}

    def set_params(self, **settings: Any) -> None:
        """Change settings of the network, as ImageClassifier does to choose among them."""
        self.network.set_params(**settings)

    def transform(self, numbers: np.ndarray) -> Any:
        """Return the features of the images with these numbers."""
        setting = str(self.network.get_params(deep=False))
        if setting not in self.found:
            self.found[setting] = self.network.transform(self.images)
        return rows_of(self.found[setting], numbers)


def take_numbers(model: ImageClassifier | Committee, images: Any) -> None:
    """Let the classifier of a recipe, whose features are learned, take numbers of images in their place."""
    for member in model.members_ if isinstance(model, Committee) else [model]:
        member.networks_ = [Remembered(network, images) for network in member.networks_]


def recipe_row(model: ImageClassifier | Committee, splits: Iterable[Split]) -> Row:
    """Train the classifier of a recipe, whose features are learned, on every split."""
    row = Row([], [], [], [])
    for known, rest, _ in splits:
        model.fit_classifier(known.images, known.labels)
        row.accuracies.append(_accuracy(model.predict(rest.images), rest))
    return row


READOUTS = {"accuracies": "", "last": "Last layer (%)", "neighbors": "Neighbours (%)"}
"""What a row has, and the heading of its column; the first has that of the data set."""


def table(
    methods: Sequence[Method], found: Mapping[str, Mapping[str, Any]], data: str
) -> tuple[list[str], list[list[str]]]:
    """Return columns and rows: the paper's figure, and mean and deviation of each readout that a row has.

    Parameters
    ----------
    methods : sequence of Method
        The rows.
    found : mapping of str to mapping
        Accuracies by row and readout; rows that are missing are not run.
    data : str
        Name of the data set.
    """
    used = [key for key in READOUTS if any(row.get(key) for row in found.values())]
    columns = ["Method", "Paper (%)", *(READOUTS[key] or f"Ours, {data} (%)" for key in used)]
    rows = []
    for m in methods:
        row = found.get(m.name, {})
        cells = [percent(row[key]) if row.get(key) else "" for key in used]
        rows.append([m.name, m.paper, cells[0] or NOT_RUN, *cells[1:]])
    return columns, rows


def method_note(
    methods: Iterable[Method], found: Mapping[str, Mapping[str, Any]], settings: Mapping[str, Any]
) -> str:
    """Say what is behind the rows that were run, and in the columns that they have."""
    run = [m for m in methods if m.name in found]
    codes = {m.codes for m in run}
    said = [
        "The paper does not say how it pools, nor how many maps its row “1 layer” has: "
        f"{run[0].n_filters} are ours."
    ]
    if any(m.n_layers > 1 for m in run):
        said.append(
            "Networks: the maps of a layer are pooled ({first_pool} x {first_pool}, then 2 x 2), and the "
            "next layer learns from patches of 2 x 2 positions: of all maps at once (single field), or of "
            "{n_fields} fields of {field_size} maps, drawn at random or learned by energy correlation, with "
            "{field_filters} filters each; a single field has as many filters in all. Features of all layers "
            "are joined; “last layer” has those of the last one alone.".format(**settings)
        )
    if any(row.get("neighbors") for row in found.values()):
        said.append(
            "Neighbours: by the ten nearest images with a label, in features that no label has shaped."
        )
    if "VQ" in codes:
        said.append("VQ, which the paper quotes: centres of K-means, the same codes.")
    if "sparse coding" in codes:
        said.append(
            "Sparse coding, which the paper quotes: atoms by mini-batches, and sparse codes of one patch in "
            f"{settings.get('sparse_stride', CODES['sparse coding']['stride'])} in each direction."
        )
    if any(m.recipe for m in run):
        some = settings.get("recipe_draws")
        said.append(f"Recipes{f', of {some} draws,' if some else ''} are not in the paper.")
    return " ".join(said)


def _accuracy(predicted: Any, rest: Labeled) -> float:
    return float((to_host(predicted) == rest.labels).mean())


def figure(method: Method) -> float:
    """Return the mean of what the paper prints as mean ± deviation."""
    return float(method.paper.split()[0])


def reached_checks(
    methods: Iterable[Method], means: Mapping[str, float], where: str = ""
) -> list[Check]:
    """Ask whether the paper's figures are reached, each by its own row, or by any where that is not run.

    Parameters
    ----------
    methods : iterable of Method
        Rows that the paper has too.
    means : mapping of str to float
        Our accuracies in percent, by row.
    where : str, default=""
        What else differs from the paper, for all rows.
    """
    checks = []
    for method in methods:
        if method.name in means:
            label = method.name.replace("1600 maps", "1600 maps here")
            ours = {method.name: means[method.name]}
        else:
            label, ours = f"by any row here, the paper's figure of “{method.name}”", dict(means)
        checks.append(reached(f"{label}{where}", figure(method), ours))
    return checks


def network_checks(means: Mapping[str, float], methods: Iterable[Method]) -> list[Check]:
    """Ask what the paper says of networks that were run: the gain over one layer, and that of learned fields.

    Parameters
    ----------
    means : mapping of str to float
        Our accuracies in percent, by row.
    methods : iterable of Method
        Rows of the table that the paper has too, the first of them with one layer.

    Returns
    -------
    list of Check
    """
    one, *others = methods
    checks = []
    for method in others:
        if method.measure == "energy" and method.name in means:
            ours = means[method.name] - means[one.name]
            theirs = figure(method) - figure(one)
            claim = f"{method.name}: at least {theirs:.1f} points above one layer, as in the paper"
            checks.append(Check(claim, ours >= theirs, f"{ours:+.1f} points"))
    learned, random = (means.get(f"2 layers, {how} fields") for how in ("learned", "random"))
    if learned is not None and random is not None:
        gain = learned - random
        claim = "learned fields are at least 2 points above random ones"
        checks.append(Check(claim, gain >= 2, f"{gain:+.1f} points"))
    return checks
