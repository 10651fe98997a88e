"""The command in an empty folder, and small models and images for it."""

import numpy as np
import pytest

from clusterica.cli import main


@pytest.fixture
def command(capsys, monkeypatch, tmp_path):
    """Run the command in an empty folder; return its exit code, output and errors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")

    def call(*words):
        code = 0
        try:
            main([str(word) for word in words])
        except SystemExit as stopped:
            code = stopped.code or 0
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture(scope="session")
def pets(tmp_path_factory):
    """A folder of two classes that are easy to tell apart: upright and flat stripes, 12 by 12 pixels."""
    image = pytest.importorskip("PIL.Image")
    folder, rng = tmp_path_factory.mktemp("data") / "pets", np.random.default_rng(0)
    for name in ("flat", "upright"):
        (folder / name).mkdir(parents=True)
        for i in range(20):
            wave = 90 * np.sin(np.arange(12) * 1.6 + rng.uniform(0, 6)) + 128
            picture = np.broadcast_to(wave, (12, 12)) + rng.normal(0, 10, (12, 12))
            picture = (picture.T if name == "flat" else picture).clip(0, 255).astype(np.uint8)
            image.fromarray(picture).save(folder / name / f"{i:02d}.png")
    return folder


@pytest.fixture(scope="session")
def models(pets, tmp_path_factory):
    """A folder with features.st of clusterica learn, and classes.st of clusterica train."""
    folder = tmp_path_factory.mktemp("models")
    small = ("--filters", "8", "--seed", "0")
    for name, file, *more in (
        ("learn", "features.st", "--patches", "1000"),
        ("train", "classes.st"),
    ):
        with pytest.raises(SystemExit) as stopped:
            main([name, str(pets), "-o", str(folder / file), *small, *more])
        assert not stopped.value.code
    return folder
