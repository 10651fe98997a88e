"""``clusterica features`` and ``clusterica predict``: a model on images, in blocks that can be resumed."""

from __future__ import annotations

import csv
import io
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np

from clusterica.arrays import get_config, to_host
from clusterica.cli._console import (
    OUTPUT,
    Count,
    JsonSwitch,
    Switch,
    note,
    progress_of,
    settings,
    stop,
)
from clusterica.cli._files import (
    PACKAGES,
    SINKS,
    Partial,
    Sink,
    check_output,
    file_checksum,
    fingerprint,
    need,
)
from clusterica.cli._images import ImageSource, open_images
from clusterica.files import write_file


def features(
    model: Path,
    images: str,
    /,
    *,
    output: Annotated[Path, OUTPUT],
    block: Count | None = None,
    memory: str | None = None,
    threads: Count | None = None,
    device: str | None = None,
    fresh: Switch = False,
) -> None:
    """Compute the features of images with a model of ``clusterica learn`` or ``train``.

    Images are read block by block. If the command is stopped, the same command goes on where it was: what is
    there so far is in the folder FILE.partial.

    Example: ``clusterica features filters.safetensors holiday/ -o holiday.npy``

    Parameters
    ----------
    model
        The model file.
    images
        The images, as in clusterica learn. Image files get the size and colours that the model needs.
    output
        File for the features, a row for each image: .npy, .zarr, or .parquet (a folder of parts with the
        columns file and features). Beside .npy and .zarr the names of the images go to FILE.names.txt.
    block
        Number of images in a block; by default as many as the memory allows, up to 1,000.
    memory
        Working memory, such as 512MiB.
    threads
        Number of threads; all cores by default.
    device
        PyTorch device to compute on, such as cuda.
    fresh
        Begin again, even if an earlier run was stopped.
    """
    check_output(output, (".npy", ".zarr", ".parquet"), inputs=[model, images])
    if output.suffix.lower() != ".npy":  # before the work
        need(PACKAGES[output.suffix.lower()], what=f"writing {output}", extra="files")
    job = _Job(model, images)
    compute = job.features()
    if compute is None:
        stop(f"{model} holds {type(job.model).__name__}, which gives no features.")
    with settings(memory=memory, threads=threads, device=device):
        size = block or job.block_size()
        key = fingerprint(file_checksum(model), job.source.key, len(job.source.names), size)
        partial = Partial(output, key=key, fresh=fresh)
        done = partial.state.get("done", 0)
        if done:
            note(f"Going on after {done:,} images.")
        with job.stopped_at(partial):
            sink: Sink = SINKS[output.suffix.lower()](partial, job.source.names, size)
            for start, stop_at, block_images in job.blocks(done, size):
                sink.write(start, compute(block_images))
                partial.record(done=stop_at)
        partial.finish()
    if output.suffix.lower() != ".parquet" and job.source.are_files:
        names = output.with_name(f"{output.name}.names.txt")
        write_file(names, "\n".join(job.source.names) + "\n")
    note(f"Features of {len(job.source.names):,} images:")
    print(output)


def predict(
    model: Path,
    images: str,
    /,
    *,
    output: Annotated[Path | None, OUTPUT] = None,
    probabilities: Switch = False,
    json_: JsonSwitch = False,
    block: Count | None = None,
    memory: str | None = None,
    threads: Count | None = None,
    device: str | None = None,
    fresh: Switch = False,
) -> None:
    """Predict the classes of images with a model of ``clusterica train``.

    Prints a line for each image. With -o it writes a file instead, and if the command is stopped, the same
    command goes on where it was. Where the images are in folders of the names of classes, the accuracy is
    printed too.

    Examples: ``clusterica predict pets.safetensors photo.jpg``,
    ``clusterica predict pets.safetensors new/ --probabilities -o new.csv``

    Parameters
    ----------
    model
        The model file.
    images
        The images, as in clusterica train. Image files get the size and colours that the model needs.
    output
        File for the result: .csv, or .jsonl for JSON lines. Without it, the result is printed as CSV.
    probabilities
        Add the probability of each class, in the order of the classes.
    json_
        Print JSON lines in place of CSV.
    block
        Number of images in a block; by default as many as the memory allows, up to 1,000.
    memory
        Working memory, such as 512MiB.
    threads
        Number of threads; all cores by default.
    device
        PyTorch device to compute on, such as cuda.
    fresh
        Begin again, even if an earlier run was stopped.
    """
    if output is not None:
        check_output(output, (".csv", ".jsonl"), inputs=[model, images])
    job = _Job(model, images)
    kind = type(job.model).__name__
    if not hasattr(job.model, "predict"):
        stop(
            f"{model} holds {kind}, which predicts no classes. Train a model with: clusterica train"
        )
    if probabilities and not hasattr(job.model, "predict_proba"):
        stop(f"{model} holds {kind} without probabilities; leave --probabilities out.")
    as_json = json_ if output is None else output.suffix.lower() == ".jsonl"
    lines = _Lines(job.model, job.source, probabilities=probabilities, as_json=as_json)
    with settings(memory=memory, threads=threads, device=device):
        size = block or job.block_size()
        if output is None:
            for start, _, block_images in job.blocks(0, size):
                sys.stdout.write(lines.of(start, block_images))
                sys.stdout.flush()
        else:
            key = fingerprint(
                file_checksum(model), job.source.key, len(job.source.names), size, probabilities
            )
            partial = Partial(output, key=key, fresh=fresh)
            lines.write(job, partial, size)
    if job.source.labels is not None and set(job.source.labels) <= set(lines.classes):
        n = len(job.source.labels)
        own = " The model was trained on these images." if job.is_own_data else ""
        note(f"{lines.n_correct:,} of {n:,} correct ({100 * lines.n_correct / n:.2f} %).{own}")


class _Lines:
    """Predictions as lines of CSV or JSON."""

    def __init__(
        self, model: Any, source: ImageSource, *, probabilities: bool, as_json: bool
    ) -> None:
        self.classes = [str(name) for name in model.classes_]
        self.n_correct = 0
        self._model, self._source = model, source
        self._probabilities, self._as_json = probabilities, as_json

    def of(self, start: int, images: Any) -> str:
        """Return the lines of a block of images; the first has a header if it is CSV."""
        chances = None
        if self._probabilities:
            chances = np.asarray(to_host(self._model.predict_proba(images)), dtype=np.float64)
            found = [self.classes[i] for i in chances.argmax(axis=1)]
        else:
            found = [str(name) for name in self._model.predict(images)]
        names = self._source.names[start : start + len(found)]
        if self._source.labels is not None:
            self.n_correct += int(np.sum(self._source.labels[start : start + len(found)] == found))
        if self._as_json:
            rows: list[dict[str, Any]] = [
                {"file": name, "class": one} for name, one in zip(names, found, strict=True)
            ]
            # Nothing is added if there are no probabilities.
            for row, values in zip(rows, () if chances is None else chances, strict=False):
                row["probabilities"] = {
                    c: float(f"{p:.6g}") for c, p in zip(self.classes, values, strict=True)
                }
            return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        if start == 0:
            writer.writerow(("file", "class", *(self.classes if chances is not None else ())))
        for i, name in enumerate(names):
            writer.writerow(
                (name, found[i], *(() if chances is None else (f"{p:.6g}" for p in chances[i])))
            )
        return text.getvalue()

    def write(self, job: _Job, partial: Partial, size: int) -> None:
        """Write the lines of all images to a file, from where an earlier run was stopped."""
        done, n_bytes = partial.state.get("done", 0), partial.state.get("bytes", 0)
        self.n_correct = partial.state.get("correct", 0)
        if done:
            note(f"Going on after {done:,} images.")
        with (
            partial.data.open("r+b" if partial.data.exists() else "w+b") as file,
            job.stopped_at(partial),
        ):
            # What was written after the last record belongs to a block that was not complete.
            file.truncate(n_bytes)
            file.seek(n_bytes)
            for start, stop_at, images in job.blocks(done, size):
                file.write(self.of(start, images).encode())
                file.flush()
                os.fsync(file.fileno())
                partial.record(done=stop_at, bytes=file.tell(), correct=self.n_correct)
        partial.finish()
        print(partial.output)


# --- The model and its images -------------------------------------------------------------------------


class _Input(NamedTuple):
    """What a model takes: number of channels, and the size of images where it is fixed."""

    channels: int
    size: tuple[int, int] | None


class _Job:
    """A model and the images it is used on."""

    def __init__(self, path: Path, images: str) -> None:
        from clusterica.io import load, load_summary

        self.model = load(path)
        summary = load_summary(path) or {}
        needs = _input_of(self.model, summary.get("size"))
        if needs is None:
            kind = type(self.model).__name__
            stop(f"{path} holds {kind}, which takes rows of numbers and not images.")
        self.needs = needs
        self.source = open_images(images)
        self.is_own_data = (summary.get("data") or {}).get("source") == images

    def blocks(self, done: int, size: int) -> Iterator[tuple[int, int, Any]]:
        """Yield start, stop and images of the blocks that are not done, with a progress bar."""
        n = len(self.source.names)
        color = "grey" if self.needs.channels == 1 else "rgb"
        with progress_of(n, "images", done=done) as advance:
            for start in range(done, n, size):
                stop_at = min(start + size, n)
                yield (
                    start,
                    stop_at,
                    self.source.read(start, stop_at, color=color, size=self.needs.size),
                )
                advance(stop_at - start)

    def block_size(self) -> int:
        """Return how many images are read at a time: a function of the memory, not of the machine."""
        first = self.source.read(0, 1, size=self.needs.size)[0]
        # Pixels as bytes and as float32, and the features.
        per_image = 5 * first.size + 4 * int(getattr(self.model, "n_features_out_", 0))
        # A quarter of the memory, for what is computed on the way. At most 1,000: more are not faster, and a
        # run that is stopped loses its block.
        return int(min(1000, max(1, get_config()["memory"] // (4 * per_image))))

    def features(self) -> Callable[[Any], np.ndarray] | None:
        """Return the function from images to features, of a classifier that of its networks; or None."""
        from sklearn.pipeline import Pipeline

        from clusterica.networks import Committee, ImageClassifier

        model = self.model
        if isinstance(model, Pipeline) and hasattr(model, "predict"):
            model = model[:-1]
        if isinstance(model, Committee | ImageClassifier):
            members = getattr(model, "members_", [model])
            networks = [network for member in members for network in member.networks_]
            return lambda X: np.concatenate([to_host(one.transform(X)) for one in networks], axis=1)
        if not hasattr(model, "transform"):
            return None
        return lambda X: np.asarray(to_host(model.transform(X)))

    @contextmanager
    def stopped_at(self, partial: Partial) -> Iterator[None]:
        """Say after Ctrl-C or an error how to go on; where nothing is done, leave nothing."""
        try:
            yield
        except BaseException:
            done, n = partial.state.get("done", 0), len(self.source.names)
            if done:
                note(f"{done:,} of {n:,} images are done. The same command goes on from there.")
            else:
                partial.discard()
            raise


def _input_of(model: Any, size: Any) -> _Input | None:
    """Return what a model of images takes; None for models of rows."""
    from sklearn.pipeline import Pipeline

    from clusterica.images import ImageFeatures
    from clusterica.networks import Committee, FeatureNetwork, ImageClassifier

    if isinstance(model, Pipeline):
        return _input_of(model.steps[0][1], size)
    if isinstance(model, Committee):
        return _input_of(model.members_[0], size)
    if isinstance(model, ImageClassifier):
        return _input_of(model.networks_[0], size)
    if isinstance(model, FeatureNetwork):
        height, width, channels = model.image_shape_
        return None if height == width == 1 else _Input(channels, (height, width))
    if isinstance(model, ImageFeatures):
        return _Input(model.n_channels_in_, None if size is None else (int(size[0]), int(size[1])))
    return None
