"""Read an image file into an array of bytes: upright, on white, scaled, in grey or colour."""

from __future__ import annotations

import os
from pathlib import Path
from types import ModuleType
from typing import IO, Any

import numpy as np

COLORS = ("rgb", "grey", "keep")
# Modes of Pillow for grey images with more than 8 bits.
DEEP_GREY = ("I;16", "I;16L", "I;16B", "I;16N", "I")
WITH_ALPHA = ("LA", "La", "PA", "RGBA", "RGBa")


class UnreadableImageError(ValueError):
    """A file is not an image, or it is damaged."""


def import_pillow(reader: str) -> ModuleType:
    """Import Pillow; raise an error that says how to install it."""
    try:
        import PIL.Image
        import PIL.ImageOps
    except ImportError as error:
        raise ImportError(
            f"{reader} reads pictures with Pillow, which is not installed. "
            'Install it with: pip install "clusterica[images]"'
        ) from error
    return PIL


def read_picture(
    path: str | os.PathLike[str] | IO[bytes],
    *,
    color: str = "keep",
    resize: int | tuple[int, int] | None = None,
) -> np.ndarray:
    """Read an image file.

    Parameters
    ----------
    path : path or binary file
        The file, or an open one, such as a member of a zip archive.
    color : {"rgb", "grey", "keep"}, default="keep"
        Three channels, one channel, or as in the file.
    resize : int, (int, int) or None, default=None
        Pixels of the longest side, or height and width.

    Returns
    -------
    ndarray of shape (height, width) or (height, width, 3), uint8

    Raises
    ------
    UnreadableImageError
        If the file is not an image, or a damaged one.
    """
    pil = import_pillow("read_picture")
    # Reading a pipe would wait for a writer, perhaps for ever.
    if isinstance(path, str | os.PathLike) and not Path(path).is_file():
        raise UnreadableImageError(f"{Path(path)} is not a regular file")
    try:
        with pil.Image.open(path) as stored:
            # Cameras store how they were held, and leave the pixels as they are.
            picture = pil.ImageOps.exif_transpose(stored)
            # Before scaling: a palette cannot be interpolated, and transparent pixels would bleed.
            picture = _plain(pil, picture, color=color)
            if resize is not None:
                if isinstance(resize, tuple):
                    height, width = resize
                else:
                    scale = resize / max(picture.size)
                    width, height = (max(1, round(side * scale)) for side in picture.size)
                # Bicubic: Pillow widens the filter when it shrinks an image, so that nothing aliases.
                picture = picture.resize((width, height), pil.Image.Resampling.BICUBIC)
            return np.array(picture)
    # The readers of Pillow's formats raise almost anything for damaged files: OSError, SyntaxError,
    # RuntimeError, NotImplementedError, struct.error, DecompressionBombError, MemoryError...
    except Exception as error:
        # Pillow's messages repeat the path, or show an open file as an object.
        reason = str(error).replace(f" {str(path)!r}", "").replace(f" {path!r}", "")
        name = path if isinstance(path, str | os.PathLike) else getattr(path, "name", "the file")
        raise UnreadableImageError(f"{Path(name)} can't be read as an image: {reason}") from error


def _plain(pil: ModuleType, picture: Any, *, color: str) -> Any:
    """Convert an image to 8-bit grey or RGB."""
    if picture.mode in DEEP_GREY:
        # 16 bits to 8; Pillow itself would clip at 255.
        deep = np.asarray(picture)
        if deep.min() < 0 or deep.max() > 0xFFFF:
            raise ValueError("its pixels are neither of 8 nor of 16 bits")
        picture = pil.Image.fromarray((deep >> 8).astype(np.uint8))
    if picture.mode == "F":
        raise ValueError("its pixels are floating-point numbers, whose range is not known")
    if picture.mode in WITH_ALPHA or "transparency" in picture.info:
        # Laid on white in colour, and turned back to grey if that is what the file had.
        grey = picture.mode in ("LA", "La", "L", "1")
        layer = picture.convert("RGBA")
        white = pil.Image.new("RGBA", layer.size, (255, 255, 255, 255))
        picture = pil.Image.alpha_composite(white, layer).convert("L" if grey else "RGB")
    if color == "keep":
        return picture.convert("L" if picture.mode in ("L", "1") else "RGB")
    return picture.convert("RGB" if color == "rgb" else "L")
