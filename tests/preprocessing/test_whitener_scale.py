"""A warning where eps is too large for the scale of the data, and none elsewhere."""

import re
import warnings

import numpy as np
import pytest

from clusterica.datasets import photo_patches
from clusterica.preprocessing import ContrastNormalizer, Whitener


def volts(n_rows=500):
    return 1e-6 * np.random.default_rng().normal(size=(n_rows, 8))


@pytest.mark.parametrize("method", ["zca", "pca", "cholesky"])
def test_data_in_volts(method):
    X = volts()
    with pytest.warns(UserWarning, match=r"eps=0\.1 is much larger than the eigenvalues") as caught:
        whitener = Whitener(method, eps=0.1).fit(X)
    assert len(caught) == 1
    message = str(caught[0].message)
    assert "eps='1%'" in message
    largest = float(re.search(r"at most (\S+):", message)[1])
    assert largest == pytest.approx(np.linalg.eigvalsh(np.cov(X.T))[-1], rel=1e-2)
    assert whitener.transform(X).var(axis=0).max() < 1e-9
    # The remedies that the message names.
    for eps in ("1%", float(f"{largest:.2g}") / 100, 0.0):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            Y = Whitener(method, eps=eps).fit_transform(X)
        assert Y.var(axis=0).max() > 0.5


def test_batches_warn_once():
    whitener = Whitener(eps=0.1)
    with pytest.warns(UserWarning, match="much larger"):
        whitener.partial_fit(volts())
    whitener.partial_fit(volts())  # warnings are errors here


@pytest.mark.parametrize("eps", [0.01, 0.1, 1.0])
@pytest.mark.parametrize("patch_size", [4, 8])
def test_no_false_alarm_for_images(patch_size, eps):
    P = photo_patches(2000, patch_size, random_state=0).reshape(2000, -1).astype(np.float64)
    for X in (P, P / 255, ContrastNormalizer(eps=10).fit_transform(P)):
        Whitener(eps=eps).fit(X)  # warnings are errors here


def test_no_alarm_for_constant_data():
    Whitener(eps=0.1).fit(np.ones((10, 3)))
