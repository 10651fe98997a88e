"""``clusterica learn``: features of images, learned without labels; and what ``train`` shares with it."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from cyclopts import Parameter, validators
from rich.console import Console

from clusterica import __version__
from clusterica.arrays import get_config
from clusterica.cli._console import (
    OUTPUT,
    Count,
    FitProgress,
    JsonSwitch,
    Seed,
    Switch,
    note,
    print_json,
    settings,
    stop,
)
from clusterica.cli._files import check_output, fingerprint, folder_of_checkpoints
from clusterica.cli.inputs.images import ImageSource, parse_size
from clusterica.cli.inputs.usable import OnError, find_usable, note_errors, open_folder_or_array
from clusterica.io import checkpoints

Color = Literal["keep", "rgb", "grey"]
Recipe = Literal["fast", "accurate", "best"]
# A trial reads this share of the images and learns from this share of the patches; with less, the time to
# start up would count too much.
TRIAL = 0.05


def learn(
    images: str,
    /,
    *,
    output: Annotated[Path, OUTPUT],
    recipe: Recipe | None = None,
    filters: Count | None = None,
    patch_size: Count | None = None,
    patches: Count = 400_000,
    layers: Annotated[int, Parameter(validator=validators.Number(gte=1, lte=2))] = 1,
    size: str | None = None,
    color: Color = "keep",
    limit: Count | None = None,
    on_error: OnError = "stop",
    seed: Seed = 0,
    memory: str | None = None,
    threads: Count | None = None,
    device: str | None = None,
    dry_run: Switch = False,
    fresh: Switch = False,
    json: JsonSwitch = False,
) -> None:
    """Learn features from images without labels, and save them as a model.

    Patches of the images are whitened and clustered; the centres are filters. The model turns an image
    into features: ``clusterica features MODEL IMAGES -o FILE``. If the command is stopped, the same command
    goes on where it was: checkpoints are in the folder FILE.partial until the model is saved.

    For example:

        clusterica learn photos -o filters.safetensors
        clusterica learn holiday/ --filters 400 -o holiday.safetensors

    Parameters
    ----------
    images
        A folder of images, or of folders of images (their names are not used), a .zip of one, a .npy, .npz or
        .zarr array of shape (n, height, width) or (n, height, width, channels), or a data set:
        digits, photos, cifar10, stl10, stl10-unlabeled, mnist, fashion-mnist, caltech101.
    output
        The model file, such as model.safetensors.
    recipe
        The features of clusterica train: fast (1,600 filters), accurate (4,096, for a GPU) or best (several
        patch sizes and layers, for a GPU). Chooses patch size and layers, and needs images of one size.
    filters
        Number of filters; 1,600 without a recipe. More give better features and take longer.
    patch_size
        Side of a patch, in pixels; 6 without a recipe.
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
        Learn from at most this many images, evenly spaced.
    on_error
        What to do with a damaged image, or one that is too small: stop, or skip it and say so.
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
    fresh
        Begin again, even if an earlier run was stopped.
    json
        Print the result as JSON.
    """
    check_output(output, inputs=[images])
    if recipe is not None and (patch_size is not None or layers > 1):
        stop("--recipe chooses patch size and layers; leave out --patch-size and --layers.", code=2)
    source = open_checked(images, color)
    with settings(memory=memory, threads=threads, device=device):
        n_images = min(len(source.names), limit or len(source.names))
        # The second layer learns 100 filters, and so needs as many patches of the images in a trial.
        few = max(8 if layers == 1 else 100, int(TRIAL * n_images)) if dry_run else limit
        start = time.perf_counter()
        found = find_usable(
            source,
            limit=few,
            color=color,
            size=parse_size(size),
            # One more than a patch, so that each of 2 x 2 cells has a place.
            smallest=(patch_size or 6) + 1 if recipe is None and layers == 1 else 1,
            on_error=on_error,
        )
        note_errors(found.errors, "left out")
        data = found.images
        if not len(data):
            stop(f"none of the images in {images} can be used.")
        reading = time.perf_counter() - start
        model = (
            _learner(data, filters or 1600, patch_size or 6, patches, layers, seed)
            if recipe is None
            else _of_recipe(recipe, data, filters, patches, seed)
        )
        if dry_run:
            _show_estimate(model, data, reading=reading, n_images=n_images, json=json)
            return
        # All that decides what is learned; the same command goes on with the same.
        options = (patches, size, color, limit, on_error)
        key = run_key("learn", [source], model, options)
        with folder_of_checkpoints(output, key=key, fresh=fresh) as folder:
            with checkpoints(folder):
                _fit(model, data, quiet=json)
            seconds = time.perf_counter() - start
            facts: dict[str, Any] = {
                "command": "learn",
                "recipe": recipe,
                "seconds": seconds,
                "data": describe(source, data, found.errors),
                # Those of the first layer; a second one has its own.
                "filters": sum(getattr(p, "layers", [p])[0].n_filters for p in networks_of(model)),
                "features": sum(int(part.n_features_out_) for part in networks_of(model)),
            }
            save_with_summary(model, output, data, facts=facts | {"size": parse_size(size)})
    if json:
        print_json({"file": str(output), **facts})
        return
    console = Console(highlight=False, soft_wrap=True)
    console.print(
        f"Learned {facts['filters']:,} filters from {len(data):,} images in {seconds:.1f} s; an image has "
        f"{facts['features']:,} features."
    )
    console.print(str(output), markup=False)
    note(f"Look at it with: clusterica report {output} -o page.html")


def _learner(data: Any, filters: int, patch_size: int, patches: int, layers: int, seed: int) -> Any:
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


def _of_recipe(name: Recipe, data: Any, filters: int | None, patches: int, seed: int) -> Any:
    """Return the classifier of a recipe, of which only the features are learned."""
    from clusterica.networks.recipes import make_classifier

    if isinstance(data, list):
        stop("the images have different sizes, and a recipe needs one: add --size 32.")
    model = make_classifier(name, tuple(data.shape[1:]), n_filters=filters, random_state=seed)
    for network in networks_of(model):
        for layer in network.layers:
            layer.set_params(n_patches=min(layer.n_patches, patches))
    return model


def _fit(model: Any, data: Any, *, quiet: bool) -> None:
    """Learn features; those of a classifier without the classifier."""
    watch(networks_of(model), quiet=quiet)
    (model.learn if hasattr(model, "learn") else model.fit)(data)
    for part in networks_of(model):
        part.set_callbacks()  # no bars are to be saved


def _show_estimate(model: Any, data: Any, *, reading: float, n_images: int, json: bool) -> None:
    """Print time and memory of a fit, from a trial with a few images and patches."""
    from sklearn.base import clone

    trial = clone(model)
    layers = [layer for part in networks_of(trial) for layer in getattr(part, "layers", [part])]
    patches, patch_size = layers[0].n_patches, max(layer.patch_size for layer in layers)
    share = min(1.0, max(TRIAL, 2000 / patches))
    for layer in layers:
        layer.set_params(n_patches=max(2, int(layer.n_patches * share)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of few patches, which is what a trial has
        for _ in range(2):  # the first one compiles
            start = time.perf_counter()
            _fit(trial, data, quiet=True)
            seconds = time.perf_counter() - start
    of_all = n_images / len(data)
    images_bytes = int(sum(image.nbytes for image in data) * of_all)
    channels = data[0].shape[2] if data[0].ndim == 3 else 1
    # fit holds its patches twice, in float32.
    patches_bytes = 2 * 4 * patches * patch_size**2 * channels
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


# --- What learn and train share ----------------------------------------------------------------------


def open_checked(given: str, color: str) -> ImageSource:
    """Open images, or exit with a message if they can't have the colours that were asked for."""
    source = open_folder_or_array(given)
    if color != "keep" and not source.are_files:
        stop(
            f"--color {color} is for image files, and {given} is an array; convert it first.",
            code=2,
        )
    return source


def run_key(command: str, sources: list[ImageSource], model: Any, options: tuple[Any, ...]) -> str:
    """Return a checksum of all that decides what is learned."""
    params = sorted((name, str(value)) for name, value in model.get_params().items())
    keys = [source.key for source in sources]
    return fingerprint(command, __version__, keys, params, options, get_config())


def watch(estimators: list[Any], *, quiet: bool) -> None:
    """Show the progress of fits in a terminal."""
    if Console().is_terminal and not quiet:
        for estimator in estimators:
            estimator.set_callbacks(FitProgress())


def networks_of(model: Any) -> list[Any]:
    """Return the parts of a model that turn images into features; before a fit, those that will be fitted."""
    members = getattr(model, "members_", None) or getattr(model, "members", [model])
    return [
        network
        for member in members
        for network in getattr(member, "networks_", None) or getattr(member, "networks", [member])
    ]


def describe(source: ImageSource, images: Any, errors: dict[str, str]) -> dict[str, Any]:
    """Return what is known of the images, for the model file."""
    shapes = {
        tuple(map(int, one.shape)) for one in (images if isinstance(images, list) else images[:1])
    }
    shape = list(shapes.pop()) if len(shapes) == 1 else None
    known = {"source": source.path, "n": len(images), "shape": shape}
    return known | ({"left_out": len(errors)} if errors else {})


def save_with_summary(
    model: Any,
    output: Path,
    images: Any,
    *,
    facts: dict[str, Any],
    labels: np.ndarray | None = None,
    validation: tuple[Any, ...] | None = None,
) -> None:
    """Save a model with all that its page and ``clusterica info`` show."""
    # Imported here, so that --help answers at once.
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
    # What only the command knows stays, such as how many images were left out.
    save(model, output, summary=facts | summary | {"data": facts["data"] | summary["data"]})
