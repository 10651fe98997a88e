"""Export of a model of images to torch, where normalising, whitening and filters are convolutions."""

from __future__ import annotations

from typing import Any


def to_torch(model: Any) -> Any:
    """Return a fitted model of images as a ``torch.nn.Module``.

    Parameters
    ----------
    model : ImageFeatures or Pipeline
        Fitted :class:`~clusterica.images.ImageFeatures`, alone or with a linear classifier after it, such as
        :class:`~clusterica.linear.LinearSVC`. The encoder is one of "soft-threshold", "sigmoid", "triangle"
        and "hard"; the normalizer and the whitener are those of clusterica, or None; there is one region.

    Returns
    -------
    torch.nn.Module
        Takes a tensor of images as ``transform`` does, of shape (n, height, width) or (n, height, width,
        channels), and returns a float32 tensor: the features, or the decision function of the classifier.
        Its attribute ``classes`` lists the labels of the classes, and is None without a classifier.

    Raises
    ------
    TypeError
        If the model has a step for which there is no such form.

    Notes
    -----
    The module returns what ``transform`` or ``decision_function`` do, up to rounding. It holds the codes of
    all patches of a batch in memory, so give it a few images at a time. ``torch.onnx.export`` writes it to
    an ONNX file, for images of one size; that needs the packages onnx and onnxscript.

    Examples
    --------
    >>> import pytest
    >>> torch = pytest.importorskip("torch")
    >>> from sklearn.datasets import load_digits
    >>> from clusterica.images import ImageFeatures
    >>> from clusterica.io import to_torch
    >>> X = load_digits().images
    >>> features = ImageFeatures(16, patch_size=4, random_state=0).fit(X)
    >>> to_torch(features)(torch.asarray(X[:10])).shape
    torch.Size([10, 128])
    """
    # Here: `import clusterica` needs neither torch nor the estimators of images.
    from clusterica.io._stages import numbers_of

    stages, head = numbers_of(model)
    try:
        from clusterica.io._torch_module import ImageModule
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ImportError(
            "to_torch needs PyTorch; install it with: pip install 'clusterica[torch]'"
        ) from None
    return ImageModule(stages, head).eval()
