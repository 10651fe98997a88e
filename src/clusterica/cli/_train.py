"""``clusterica train``: classifiers of images on features that are learned without labels."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from cyclopts import Parameter, validators
from rich.console import Console

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
from clusterica.cli._files import check_output, file_checksum, folder_of_checkpoints
from clusterica.cli._learn import (
    Color,
    Recipe,
    describe,
    networks_of,
    open_checked,
    run_key,
    save_with_summary,
    watch,
)
from clusterica.cli.inputs.images import ImageSource, parse_size, read_labels
from clusterica.cli.inputs.usable import OnError, find_usable, note_empty_folders, note_errors
from clusterica.io import checkpoints

Share = Annotated[float, Parameter(validator=validators.Number(gte=0, lt=1))]


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


def train(
    data: str,
    /,
    *,
    output: Annotated[Path, OUTPUT],
    recipe: Recipe = "fast",
    filters: Count | None = None,
    labels: Path | None = None,
    unlabeled: str | None = None,
    validation: Share = 0.2,
    refit: bool = True,
    size: str | None = None,
    color: Color = "keep",
    on_error: OnError = "stop",
    seed: Seed = 0,
    memory: str | None = None,
    threads: Count | None = None,
    device: str | None = None,
    fresh: Switch = False,
    json: JsonSwitch = False,
) -> None:
    """Train a classifier of images on features that are learned without labels.

    A part of the images is held out first: its accuracy and confusion table are printed. Then the
    classifier is trained on all images and saved. If the command is stopped, the same command goes on where
    it was: checkpoints are in the folder FILE.partial until the model is saved.

    For example:

        clusterica train pets/ --size 32 -o pets.safetensors
        clusterica train digits --filters 200 -o digits.safetensors

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
    on_error
        What to do with a damaged image: stop, or skip it and say so.
    seed
        Random seed.
    memory
        Working memory, such as 512MiB; images and features come on top.
    threads
        Number of threads; all cores by default.
    device
        PyTorch device to compute on, such as cuda.
    fresh
        Begin again, even if an earlier run was stopped.
    json
        Print the result as JSON.
    """
    from clusterica.networks.recipes import make_classifier

    check_output(output, inputs=[data])
    source = open_checked(data, color)
    names = source.labels if labels is None else read_labels(labels, source.names)
    names = _check_classes(names, data)
    if labels is None:
        note_empty_folders(data, set(names))
    with settings(memory=memory, threads=threads, device=device):
        found = find_usable(source, color=color, size=parse_size(size), on_error=on_error)
        if found.errors:
            note_errors(found.errors, "left out")
            if not found.places:
                stop(f"none of the images in {data} can be used.")
            names = _check_classes(names[found.places], data)
        images = _of_one_size(found.images, data)
        more, sources = None, [source]
        if unlabeled is not None:
            sources.append(open_checked(unlabeled, "keep"))
            more = _read_like(images, sources[1], on_error)
        start = time.perf_counter()
        model: Any = make_classifier(
            recipe, tuple(images.shape[1:]), n_filters=filters, random_state=seed
        )
        held = held_out(names, validation, seed)
        options = (labels and file_checksum(labels), validation, refit, size, color, on_error)
        key = run_key("train", sources, model, options)
        with folder_of_checkpoints(output, key=key, fresh=fresh) as folder:
            with checkpoints(folder):
                tried = _fit(model, images, names, held, more=more, refit=refit, quiet=json)
            facts: dict[str, Any] = {
                "command": "train",
                "recipe": recipe,
                "seconds": time.perf_counter() - start,
                "data": describe(source, images, found.errors)
                | {"classes": model.classes_.tolist()},
                "trained_on": len(names) if refit else int(np.sum(~held)),
                "validation": None if tried is None else tried.measured(model.classes_),
            }
            save_with_summary(model, output, images, facts=facts, labels=names, validation=tried)
    if json:
        print_json({"file": str(output), **facts})
        return
    console = Console(highlight=False)
    if tried is not None:
        measured = facts["validation"]
        console.print(
            f"Validation accuracy: {100 * measured['accuracy']:.2f} % of {measured['n']:,} held-out images."
        )
        show_confusion(console, measured["classes"], measured["confusion"])
    console.print(
        f"Trained on {facts['trained_on']:,} of {len(names):,} images in {facts['seconds']:.1f} s."
    )
    console.print(str(output), soft_wrap=True, markup=False)
    note(f"Use it with: clusterica predict {output} IMAGES")


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


def _read_like(images: np.ndarray, source: ImageSource, on_error: OnError) -> np.ndarray:
    """Read images without labels in the size and the colours of those with labels."""
    found = find_usable(
        source,
        color="rgb" if images.shape[3:] == (3,) else "grey",
        size=(images.shape[1], images.shape[2]),
        on_error=on_error,
    )
    note_errors(found.errors, "left out")
    if not len(found.images):
        stop(f"none of the images in {source.path} can be used.")
    more = _of_one_size(found.images, source.path)
    channels = [int(np.prod(one.shape[3:])) for one in (images, more)]
    if channels[0] != channels[1]:
        stop(
            f"the images in {source.path} have {channels[1]} channels, and those with labels have "
            f"{channels[0]}; convert one to the other."
        )
    return more


def held_out(names: np.ndarray, share: float, seed: int) -> np.ndarray:
    """Return a mask of images to hold out, of every class at least one, and at least one not."""
    held = np.zeros(len(names), dtype=bool)
    if share == 0:
        return held
    # Class by class, so that rare classes are measured as well.
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
    watch(networks_of(model), quiet=quiet)
    keep, out = np.flatnonzero(~held), np.flatnonzero(held)
    # Filters are not learned from held-out images either. They serve the final classifier too, since
    # labels do not change them.
    model.learn(images[keep] if more is None else more)
    for network in networks_of(model):
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
