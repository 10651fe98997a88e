"""The 1,797 handwritten digits of 8 by 8 pixels that come with scikit-learn, in grey levels 0 to 255."""

from __future__ import annotations

import numpy as np

from clusterica.datasets._image_set import ImageSet


def load_digits_images() -> ImageSet:
    """Return scikit-learn's handwritten digits as images.

    scikit-learn gives them in levels from 0 to 16. Here they are scaled to whole numbers from 0 to 255,
    the range of photographs, for which the defaults of this library are meant. Nothing is downloaded.

    Returns
    -------
    ImageSet
        ``images`` of shape (1797, 8, 8).

    Examples
    --------
    >>> from clusterica.datasets import load_digits_images
    >>> digits = load_digits_images()
    >>> digits.images.shape, int(digits.images.max())
    ((1797, 8, 8), 255)
    """
    from sklearn.datasets import load_digits

    digits = load_digits()
    images = np.rint(digits.images * (255 / 16)).astype(np.uint8)
    return ImageSet(images, digits.target.astype(np.int64), tuple(map(str, digits.target_names)))
