"""``clusterica features`` and ``clusterica predict``: a model on images, in blocks that can be resumed."""

from __future__ import annotations

import csv
import io
import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from clusterica.arrays import to_host
from clusterica.cli._console import (
    OUTPUT,
    Count,
    JsonSwitch,
    Switch,
    note,
    print_json,
    settings,
    stop,
)
from clusterica.cli._files import (
    PACKAGES,
    SINKS,
    Partial,
    Sink,
    check_output,
    need,
)
from clusterica.cli._job import Job
from clusterica.cli.inputs.usable import Found, OnError, note_errors
from clusterica.files import write_file


def features(
    model: Path,
    images: str,
    /,
    *,
    output: Annotated[Path, OUTPUT],
    on_error: OnError = "stop",
    block: Count | None = None,
    memory: str | None = None,
    threads: Count | None = None,
    device: str | None = None,
    fresh: Switch = False,
    json_: JsonSwitch = False,
) -> None:
    """Compute the features of images with a model of ``clusterica learn`` or ``train``.

    Images are read block by block. If the command is stopped, the same command goes on where it was: what is
    there so far is in the folder FILE.partial.

    For example:

        clusterica features filters.safetensors holiday/ -o holiday.npy

    Parameters
    ----------
    model
        The model file.
    images
        The images, as in clusterica learn. Image files get the size and colours that the model needs.
    output
        File for the features, a row for each image: .npy, .zarr, or .parquet (a folder of parts with the
        columns file and features). Beside .npy and .zarr the names of the images go to FILE.names.txt.
    on_error
        What to do with a damaged image, or one that is too small: stop, or skip it. Its features are then
        NaN, and FILE.errors.csv says what is wrong with it.
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
    json_
        Print the result as JSON.
    """
    check_output(output, (".npy", ".zarr", ".parquet"), inputs=[model, images])
    if output.suffix.lower() != ".npy":  # before the work
        need(PACKAGES[output.suffix.lower()], what=f"writing {output}", extra="files")
    job = Job(model, images, on_error)
    compute = job.features()
    if compute is None:
        stop(f"{model} holds {type(job.model).__name__}, which gives no features.")
    with settings(memory=memory, threads=threads, device=device):
        size = block or job.block_size()
        partial = Partial(output, key=job.key(size), fresh=fresh)
        done = partial.state.get("done", 0)
        if done:
            note(f"Resuming after {done:,} images.")
        with job.stopped_at(partial):
            sink: Sink = SINKS[output.suffix.lower()](partial, job.source.names, size)
            errors = dict(partial.state.get("errors", {}))
            for start, stop_at, found in job.blocks(done, size):
                sink.write(start, job.rows(compute, found, stop_at - start))
                errors |= found.errors
                partial.record(done=stop_at, errors=errors)
        named = job.source.are_files and output.suffix.lower() != ".parquet"
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([("file", "error"), *errors.items()])
        # Before the result: where it is, they are.
        _write_beside(output, "names.txt", "\n".join(job.source.names) + "\n" if named else None)
        _write_beside(output, "errors.csv", text.getvalue() if errors else None)
        partial.finish()
    note_errors(errors, f"skipped, their features are NaN (see {output.name}.errors.csv)")
    if json_:
        print_json({"file": str(output), "n": len(job.source.names), "errors": errors})
        return
    note(f"Features of {len(job.source.names):,} images:")
    print(output)


def _write_beside(output: Path, what: str, text: str | None) -> None:
    """Write OUTPUT.what; without a text, remove that of an earlier result."""
    file = output.with_name(f"{output.name}.{what}")
    if text is None:
        file.unlink(missing_ok=True)
    else:
        write_file(file, text)


def predict(
    model: Path,
    images: str,
    /,
    *,
    output: Annotated[Path | None, OUTPUT] = None,
    probabilities: Switch = False,
    json_: JsonSwitch = False,
    on_error: OnError = "stop",
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

    For example:

        clusterica predict pets.safetensors photo.jpg
        clusterica predict pets.safetensors new/ --probabilities -o new.csv

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
        Print JSON lines in place of CSV; with -o, a summary as JSON.
    on_error
        What to do with a damaged image: stop, or skip it. It then has no class, and the column error says
        what is wrong with it.
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
    job = Job(model, images, on_error)
    kind = type(job.model).__name__
    if not hasattr(job.model, "predict") or not hasattr(job.model, "classes_"):
        stop(
            f"{model} holds {kind}, which predicts no classes. Train a model with: clusterica train"
        )
    if probabilities and not hasattr(job.model, "predict_proba"):
        stop(f"{model} holds {kind} without probabilities; leave --probabilities out.")
    as_json = json_ if output is None else output.suffix.lower() == ".jsonl"
    lines = _Lines(job, probabilities=probabilities, as_json=as_json)
    with settings(memory=memory, threads=threads, device=device):
        size = block or job.block_size()
        if output is None:
            for start, stop_at, found in job.blocks(0, size):
                sys.stdout.write(lines.of(start, stop_at, found))
                sys.stdout.flush()
        else:
            key = job.key(size, probabilities)
            lines.write(Partial(output, key=key, fresh=fresh), size)
    note_errors(lines.errors, "skipped")
    n = len(job.source.names) - len(lines.errors)
    known = job.source.labels is not None and set(job.source.labels) <= set(lines.classes)
    if n and known:
        own = " The model was trained on these images." if job.is_own_data else ""
        note(f"{lines.n_correct:,} of {n:,} correct ({100 * lines.n_correct / n:.2f} %).{own}")
    if output is not None and json_:
        correct = {"correct": lines.n_correct} if known else {}
        print_json({"file": str(output), "n": n, **correct, "errors": lines.errors})
    elif output is not None:
        print(output)


class _Lines:
    """Predictions as lines of CSV or JSON."""

    def __init__(self, job: Job, *, probabilities: bool, as_json: bool) -> None:
        self.classes = [str(name) for name in job.model.classes_]
        self.n_correct = 0
        self.errors: dict[str, str] = {}
        self._job, self._probabilities, self._as_json = job, probabilities, as_json

    def of(self, start: int, stop_at: int, found: Found) -> str:
        """Return the lines of a block of images; the first has a header if it is CSV."""
        source, self.errors = self._job.source, self.errors | found.errors
        rows: list[dict[str, Any]] = [
            {"file": name, "class": None, "error": found.errors.get(name)}
            for name in source.names[start:stop_at]
        ]
        for i, (label, chances) in zip(found.places, self._predicted(found), strict=True):
            rows[i] |= {"class": label, "probabilities": chances}
            if source.labels is not None:
                self.n_correct += int(source.labels[start + i] == label)
        if self._as_json:
            # No word of what there is not.
            plain = ({k: v for k, v in row.items() if v is not None} for row in rows)
            return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in plain)
        text = io.StringIO()
        chosen = self.classes if self._probabilities else []
        last = ["error"] if self._job.on_error == "skip" else []
        writer = csv.writer(text, lineterminator="\n")
        if start == 0:
            writer.writerow(("file", "class", *chosen, *last))
        for row in rows:
            values = row.get("probabilities") or {}
            writer.writerow(
                (row["file"], row["class"], *map(values.get, chosen), *map(row.get, last))
            )
        return text.getvalue()

    def _predicted(self, found: Found) -> list[tuple[str, dict[str, float] | None]]:
        """Return the class of each image, and the probabilities of all classes if they are wanted."""
        model = self._job.model
        if not found.places:
            return []
        if not self._probabilities:
            return [(str(name), None) for name in model.predict(found.images)]
        chances = np.asarray(to_host(model.predict_proba(found.images)), dtype=np.float64)
        return [
            (
                self.classes[values.argmax()],
                {c: float(f"{p:.6g}") for c, p in zip(self.classes, values, strict=True)},
            )
            for values in chances
        ]

    def write(self, partial: Partial, size: int) -> None:
        """Write the lines of all images to a file, from where an earlier run was stopped."""
        job = self._job
        done, n_bytes = partial.state.get("done", 0), partial.state.get("bytes", 0)
        self.n_correct = partial.state.get("correct", 0)
        self.errors = dict(partial.state.get("errors", {}))
        if done:
            note(f"Resuming after {done:,} images.")
        with (
            partial.data.open("r+b" if partial.data.exists() else "w+b") as file,
            job.stopped_at(partial),
        ):
            # What was written after the last record belongs to a block that was not complete.
            file.truncate(n_bytes)
            file.seek(n_bytes)
            for start, stop_at, found in job.blocks(done, size):
                file.write(self.of(start, stop_at, found).encode())
                file.flush()
                os.fsync(file.fileno())
                partial.record(
                    done=stop_at, bytes=file.tell(), correct=self.n_correct, errors=self.errors
                )
        partial.finish()
