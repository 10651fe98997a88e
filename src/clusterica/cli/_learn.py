"""``clusterica learn`` and ``train``: features of images, learned without labels, and classifiers."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from cyclopts import Parameter, validators
from rich.console import Console

from clusterica.arrays import get_config
from clusterica.cli._console import (
    OUTPUT,
    Count,
    JsonSwitch,
    Seed,
    Switch,
    note,
    print_json,
    settings,
    show_confusion,
    stop,
)
from clusterica.cli._files import check_output
from clusterica.cli._images import ImageSource, open_images, parse_size, read_labels

Color = Literal["keep", "rgb", "grey"]
Share = Annotated[float, Parameter(validator=validators.Number(gte=0, lt=1))]
# A trial learns from this share of the patches; with fewer, start-up would count too much.
TRIAL = 0.05


def learn(
    images: str,
    /,
    *,
    output: Annotated[Path, OUTPUT],
    filters: Count = 1600,
    patch_size: Count = 6,
    patches: Count = 400_000,
    layers: Annotated[int, Parameter(validator=validators.Number(gte=1, lte=2))] = 1,
    size: str | None = None,
    color: Color = "keep",
    limit: Count | None = None,
    seed: Seed = 0,
    memory: str | None = None,
    threads: Count | None = None,
    device: str | None = None,
    dry_run: Switch = False,
    json: JsonSwitch = False,
) -> None:
    """Learn features from images without labels, and save them as a model.

    Patches of the images are whitened and clustered; the centres are filters. The model turns an image
    into features: ``clusterica features MODEL IMAGES -o FILE``.

    Examples: ``clusterica learn photos -o filters.safetensors``,
    ``clusterica learn holiday/ --filters 400 -o holiday.safetensors``

    Parameters
    ----------
    images
        A folder of images, or of folders of images (their names are not used), a .zip of one, a .npy, .npz or
        .zarr array of shape (n, height, width) or (n, height, width, channels), or a data set:
        digits, photos, cifar10, stl10, stl10-unlabeled, mnist, fashion-mnist, caltech101.
    output
        The model file, such as model.safetensors.
    filters
        Number of filters. More give better features and take longer.
    patch_size
        Side of a patch, in pixels.
    patches
        Number of patches to learn from.
    layers
        1 learns filters of patches; 2 adds a layer that learns from groups of their responses, which
        needs images of one size.
    size
        Scale all images to this size: 32, or 32x48 for height x width.
    color
        rgb or grey; keep leaves grey images grey if all are.
    limit
        Learn from at most so many images, evenly spaced.
    seed
        Random seed.
    memory
        Working memory, such as 512MiB; images and patches come on top.
    threads
        Number of threads; all cores by default.
    device
        PyTorch device to compute on, such as cuda.
    dry_run
        Print how much time and memory it would take, measured on a small trial, and write nothing.
    json
        Print the result as JSON.
    """
    check_output(output, inputs=[images])
    source = _open(images, color)
    with settings(memory=memory, threads=threads, device=device):
        n_images = min(len(source.names), limit or len(source.names))
        # The second layer learns 100 filters, and so needs as many patches of the images in a trial.
        few = max(8 if layers == 1 else 100, int(TRIAL * n_images)) if dry_run else limit
        start = time.perf_counter()
        data = source.read_some(few, color=color, size=parse_size(size))
        reading = time.perf_counter() - start
        model = _learner(
            data, filters=filters, patch_size=patch_size, patches=patches, layers=layers, seed=seed
        )
        if dry_run:
            _show_estimate(model, data, reading=reading, n_images=n_images, json=json)
            return
        watch([model], quiet=json)
        model.fit(data)
        model.set_callbacks()
        seconds = time.perf_counter() - start
        facts: dict[str, Any] = {
            "command": "learn",
            "seconds": seconds,
            "data": describe(source, data),
            "features": int(model.n_features_out_),
        }
        save_with_summary(model, output, data, facts=facts | {"size": parse_size(size)})
    if json:
        print_json({"file": str(output), **facts})
        return
    console = Console(highlight=False, soft_wrap=True)
    console.print(
        f"Learned {filters:,} filters from {len(data):,} images in {seconds:.1f} s; an image has "
        f"{model.n_features_out_:,} features."
    )
    console.print(str(output), markup=False)
    note(f"Look at it with: clusterica report {output} -o page.html")


def train(
    data: str,
    /,
    *,
    output: Annotated[Path, OUTPUT],
    recipe: Literal["fast", "accurate", "best"] = "fast",
    filters: Count | None = None,
    labels: Path | None = None,
    unlabeled: str | None = None,
    validation: Share = 0.2,
    refit: bool = True,
    size: str | None = None,
    color: Color = "keep",
    seed: Seed = 0,
    memory: str | None = None,
    threads: Count | None = None,
    device: str | None = None,
    json: JsonSwitch = False,
) -> None:
    """Train a classifier of images on features that are learned without labels.

    A part of the images is held out first: its accuracy and confusion table are printed. Then the
    classifier is trained on all images and saved.

    Examples: ``clusterica train pets/ --size 32 -o pets.safetensors``,
    ``clusterica train digits --filters 200 -o digits.safetensors``

    Parameters
    ----------
    data
        A folder with a folder of images for each class, a .zip of one, a .npz with the arrays images and
        labels, a .npy with --labels, or a data set: digits, cifar10, stl10, mnist, fashion-mnist, caltech101.
    output
        The model file, such as model.safetensors.
    recipe
        fast: one layer of filters and a linear classifier, for two cores. accurate: more filters and kernel
        ridge, for a GPU or few labels. best: a committee of several patch sizes and layers, for a GPU.
    filters
        Number of filters; fewer are faster.
    labels
        File with the class of each image: one on each line, in the order of the images; a .npy array; or
        a CSV table with the columns file and class.
    unlabeled
        Images without labels to learn the filters from, as in clusterica learn, in place of those in DATA.
    validation
        Share of the images of each class that is held out to measure the accuracy; 0 measures none.
    refit
        Train on all images after the measurement. With --no-refit the held-out images are not used.
    size
        Scale all images to this size: 32, or 32x48 for height x width. All must have one size.
    color
        rgb or grey; keep leaves grey images grey if all are.
    seed
        Random seed.
    memory
        Working memory, such as 512MiB; images and features come on top.
    threads
        Number of threads; all cores by default.
    device
        PyTorch device to compute on, such as cuda.
    json
        Print the result as JSON.
    """
    from clusterica.networks.recipes import make_classifier

    check_output(output, inputs=[data])
    source = _open(data, color)
    names = source.labels if labels is None else read_labels(labels, source.names)
    names = _check_classes(names, data)
    with settings(memory=memory, threads=threads, device=device):
        images = _of_one_size(source.read(color=color, size=parse_size(size)), data)
        more = None
        if unlabeled is not None:
            color_of = "rgb" if images.shape[3:] == (3,) else "grey"
            pixels = (images.shape[1], images.shape[2])
            more = _of_one_size(open_images(unlabeled).read(color=color_of, size=pixels), unlabeled)
        start = time.perf_counter()
        model: Any = make_classifier(
            recipe, tuple(images.shape[1:]), n_filters=filters, random_state=seed
        )
        held = _held_out(names, validation, seed)
        tried = _fit(model, images, names, held, more=more, refit=refit, quiet=json)
        facts: dict[str, Any] = {
            "command": "train",
            "recipe": recipe,
            "seconds": time.perf_counter() - start,
            "data": describe(source, images) | {"classes": model.classes_.tolist()},
            "trained_on": len(names) if refit else int(np.sum(~held)),
            "validation": None if tried is None else tried.measured(model.classes_),
        }
        save_with_summary(model, output, images, facts=facts, labels=names, validation=tried)
    if json:
        print_json({"file": str(output), **facts})
    else:
        _show_training(facts, output)


# --- What both share ---------------------------------------------------------------------------------


def _open(given: str, color: str) -> ImageSource:
    source = open_images(given)
    if color != "keep" and not source.are_files:
        stop(
            f"--color {color} is for image files, and {given} is an array; convert it first.",
            code=2,
        )
    return source


def watch(estimators: list[Any], *, quiet: bool) -> None:
    """Show the progress of fits in a terminal."""
    if Console().is_terminal and not quiet:
        from sklearn.callback import ProgressBar

        for estimator in estimators:
            estimator.set_callbacks(ProgressBar())


def describe(source: ImageSource, images: Any) -> dict[str, Any]:
    """Return what is known of the images, for the model file."""
    shapes = {
        tuple(map(int, one.shape)) for one in (images if isinstance(images, list) else images[:1])
    }
    shape = list(shapes.pop()) if len(shapes) == 1 else None
    return {"source": source.path, "n": len(images), "shape": shape}


class Tried(NamedTuple):
    """Images that were held out, their classes, and what was predicted."""

    images: Any
    labels: np.ndarray
    predicted: np.ndarray

    def measured(self, classes: np.ndarray) -> dict[str, Any]:
        """Return the accuracy and the confusion matrix, true classes by row."""
        from sklearn.metrics import confusion_matrix

        return {
            "n": len(self.labels),
            "accuracy": float(np.mean(self.predicted == self.labels)),
            "classes": classes.tolist(),
            "confusion": confusion_matrix(self.labels, self.predicted, labels=classes),
        }


def save_with_summary(
    model: Any,
    output: Path,
    images: Any,
    *,
    facts: dict[str, Any],
    labels: np.ndarray | None = None,
    validation: Tried | None = None,
) -> None:
    """Save a model with all that its page and ``clusterica info`` show."""
    from clusterica.io import save
    from clusterica.report import summarize

    summary = summarize(
        model,
        images,
        labels=labels,
        validation=validation,
        source=facts["data"]["source"],
        seconds=facts["seconds"],
    )
    save(model, output, summary=facts | summary)


# --- Learn -------------------------------------------------------------------------------------------


def _learner(
    data: Any, *, filters: int, patch_size: int, patches: int, layers: int, seed: int
) -> Any:
    """Return an estimator of features for images of one size or several, not fitted yet."""
    from clusterica.images import ImageFeatures
    from clusterica.networks import DependencyGroups, FeatureNetwork, Layer

    if layers == 1:
        # Sums grow with the size of an image, means do not.
        pooling = "mean" if isinstance(data, list) else "sum"
        return ImageFeatures(
            filters,
            patch_size=patch_size,
            n_patches=patches,
            pooling=pooling,
            random_state=seed,
        )
    if isinstance(data, list):
        stop("the images have different sizes, and --layers 2 needs one: add --size 32.")
    groups = DependencyGroups(size=min(200, filters), n_groups=min(32, filters))
    return FeatureNetwork(
        [
            Layer(filters, patch_size=patch_size, pool_size=3, n_patches=patches),
            Layer(100, patch_size=2, pool_size=2, fields=groups, n_patches=min(patches, 50_000)),
        ],
        random_state=seed,
    )


def _show_estimate(model: Any, data: Any, *, reading: float, n_images: int, json: bool) -> None:
    """Print time and memory of a fit, from a trial with a few images and patches."""
    from sklearn.base import clone

    layers = list(getattr(model, "layers", [model]))
    patches = layers[0].n_patches
    share = min(1.0, max(TRIAL, 2000 / patches))
    small = [clone(one).set_params(n_patches=max(2, int(one.n_patches * share))) for one in layers]
    trial = clone(model).set_params(layers=small) if hasattr(model, "layers") else small[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of few patches, which is what a trial has
        for _ in range(2):  # the first one compiles
            start = time.perf_counter()
            trial.fit(data)
            seconds = time.perf_counter() - start
    of_all = n_images / len(data)
    images_bytes = int(sum(image.nbytes for image in data) * of_all)
    channels = data[0].shape[2] if data[0].ndim == 3 else 1
    # fit holds its patches twice, in float32.
    patches_bytes = 2 * 4 * patches * layers[0].patch_size ** 2 * channels
    facts = {
        "seconds": reading * of_all + seconds / share,
        "memory_bytes": images_bytes + patches_bytes + get_config()["memory"],
        "images_bytes": images_bytes,
        "patches_bytes": patches_bytes,
        "working_bytes": get_config()["memory"],
        "trial_seconds": seconds,
        "trial_images": len(data),
        "trial_share_of_patches": share,
    }
    if json:
        print_json(facts)
        return
    show = {name: f"{facts[name] / 2**20:,.0f} MiB" for name in facts if name.endswith("bytes")}
    console = Console(highlight=False, soft_wrap=True)
    console.print(
        f"Time: about {facts['seconds']:,.0f} s. Estimated: a trial with {len(data):,} images and "
        f"{100 * share:.0f} % of the patches took {seconds:.1f} s."
    )
    console.print(
        f"Memory: up to {show['memory_bytes']}. Computed: {show['images_bytes']} images, "
        f"{show['patches_bytes']} patches, {show['working_bytes']} to work in (--memory)."
    )


# --- Train -------------------------------------------------------------------------------------------


def _check_classes(names: np.ndarray | None, data: str) -> np.ndarray:
    if names is None:
        stop(
            f"{data} has no labels. Put the images of each class into a folder with its name, or give a file "
            "with --labels."
        )
    classes, counts = np.unique(names, return_counts=True)
    if len(classes) < 2:
        stop(f"{data} has one class, {classes[0]}; a classifier needs two or more.")
    if counts.min() < 2:
        stop(
            f"class {classes[counts.argmin()]} has one image; give two or more of each class, one to train "
            "on and one to measure."
        )
    return names


def _of_one_size(images: Any, where: str) -> np.ndarray:
    if isinstance(images, list):
        shapes = sorted({f"{i.shape[0]} x {i.shape[1]}" for i in images})
        stop(
            f"the images in {where} have different sizes, such as {' and '.join(shapes[:2])} pixels: scale "
            "them to one with --size, such as --size 32."
        )
    return np.asarray(images)


def _held_out(names: np.ndarray, share: float, seed: int) -> np.ndarray:
    """Return a mask of images to hold out, of every class at least one, and at least one not."""
    held = np.zeros(len(names), dtype=bool)
    if share == 0:
        return held
    rng = np.random.default_rng(seed)
    for name in np.unique(names):
        members = rng.permutation(np.flatnonzero(names == name))
        n_held = min(max(1, round(share * len(members))), len(members) - 1)
        held[members[:n_held]] = True
    return held


def _fit(
    model: Any,
    images: Any,
    names: np.ndarray,
    held: np.ndarray,
    *,
    more: Any,
    refit: bool,
    quiet: bool,
) -> Tried | None:
    """Train a classifier; return how it did on held-out images before it was trained on all."""
    members = getattr(model, "members", [model])
    watch([network for member in members for network in member.networks], quiet=quiet)
    keep, out = np.flatnonzero(~held), np.flatnonzero(held)
    # Filters are not learned from held-out images either. They serve the final classifier too, since
    # labels do not change them.
    model.learn(images[keep] if more is None else more)
    for member in getattr(model, "members_", [model]):
        for network in member.networks_:
            network.set_callbacks()  # no bars are to be saved
    console, tried = Console(stderr=True), None
    if len(out):
        with console.status("training the classifier"):
            model.fit_classifier(images[keep], names[keep])
            tried = Tried(images[out], names[out], model.predict(images[out]))
    if refit or not len(out):
        with console.status("training the classifier on all images"):
            model.fit_classifier(images, names)
    return tried


def _show_training(facts: dict[str, Any], output: Path) -> None:
    console = Console(highlight=False)
    classes, validation = facts["data"]["classes"], facts["validation"]
    if validation is not None:
        n, accuracy = validation["n"], validation["accuracy"]
        console.print(f"Validation accuracy: {100 * accuracy:.2f} % of {n:,} held-out images.")
        show_confusion(console, classes, validation["confusion"])
    console.print(
        f"Trained on {facts['trained_on']:,} of {facts['data']['n']:,} images in {facts['seconds']:.1f} s."
    )
    console.print(str(output), soft_wrap=True, markup=False)
    note(f"Use it with: clusterica predict {output} IMAGES")
