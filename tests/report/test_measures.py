"""Numbers of filters agree with loops, with SciPy, and with gratings whose answer is known."""

import numpy as np
import pytest
from scipy import stats

from clusterica.report import _measures
from clusterica.report._measures import N_BINS, measure_responses, spectral_peaks


@pytest.fixture(params=[2**24, 700])  # all filters at once, and two at a time
def found(request, monkeypatch):
    monkeypatch.setattr(_measures, "BLOCK", request.param)
    rng = np.random.default_rng()
    X = rng.laplace(size=(300, 6)).astype(np.float32)
    filters = rng.normal(size=(7, 6)).astype(np.float32)
    return X, filters, measure_responses(X, filters, n_strongest=4)


def test_kurtosis_and_histogram(found):
    X, filters, numbers = found
    for j, d in enumerate(filters):
        z = X @ d
        assert numbers.kurtosis[j] == pytest.approx(stats.kurtosis(z), rel=1e-3, abs=1e-3)
        scaled = np.clip((z - z.mean()) / z.std(), -5 + 1e-6, 5 - 1e-6)
        counts, _ = np.histogram(scaled, bins=N_BINS, range=(-5, 5))
        # A value may fall on the other side of an edge by rounding.
        assert np.abs(numbers.histogram[j].astype(int) - counts).sum() <= 4
        assert numbers.histogram[j].sum() == len(X)


def test_strongest_and_nearest(found):
    X, filters, numbers = found
    for j, d in enumerate(filters):
        z = X @ d
        assert np.allclose(z[numbers.strongest[j]], np.sort(z)[::-1][:4])
    for x, nearest in zip(X, numbers.nearest, strict=True):
        cosines = [abs(x @ d) / np.linalg.norm(d) for d in filters]
        assert cosines[nearest] == pytest.approx(max(cosines), rel=1e-5)


def test_constant_responses_have_no_kurtosis(rng):
    X = np.column_stack([np.ones(50), rng.normal(size=50)])
    numbers = measure_responses(X, np.eye(2), n_strongest=3)
    assert np.isnan(numbers.kurtosis[0])
    assert np.isfinite(numbers.kurtosis[1])


@pytest.mark.parametrize("angle", [0, 30, 45, 90, 120, 150])
@pytest.mark.parametrize("frequency", [0.15, 0.25, 0.4])
def test_gratings(angle, frequency):
    """Bars at an angle, counter-clockwise from horizontal as one sees them, with rows downwards."""
    rows, columns = np.mgrid[:16, :16]
    normal = np.radians(angle + 90)
    wave = np.cos(2 * np.pi * frequency * (columns * np.cos(normal) - rows * np.sin(normal)) + 0.3)
    peaks = spectral_peaks(np.stack([wave, -2 * wave])[..., None])
    assert peaks.frequency == pytest.approx([frequency] * 2, abs=0.02)
    turned = (peaks.orientation - angle + 90) % 180 - 90  # 179 and 1 degrees are near
    assert turned == pytest.approx([0, 0], abs=5)


def test_constant_patterns_have_no_peak():
    peaks = spectral_peaks(np.full((1, 6, 6, 3), 0.7))
    assert np.isnan(peaks.frequency[0])
    assert np.isnan(peaks.orientation[0])
