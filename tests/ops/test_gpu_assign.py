"""The Lloyd step by Triton kernels against the reference in float64.

Without a GPU, Triton's interpreter runs the kernels on tensors of the CPU (TRITON_INTERPRET, set in
tests/conftest.py); with one, the same tests run on it.
"""

from dataclasses import dataclass
from unittest.mock import patch

import numpy as np
import pytest

from clusterica import config_context
from clusterica.arrays._place import PRECISIONS
from clusterica.cluster import CosineKMeans, GainShapeKMeans, KMeans, SphericalKMeans
from clusterica.ops.assign import (
    best_labels,
    center_sums,
    fit_sums,
    lloyd_sums_reference,
    row_losses,
)
from clusterica.ops.rules import AXIS, DIRECTION, EUCLIDEAN, GAIN_SHAPE, RULES, Euclidean

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

from clusterica.ops.gpu import assign as gpu  # noqa: E402  # after the check that Triton is there
from clusterica.ops.gpu.tiling import KernelTiling, chunk_widths, shared_bytes, smaller  # noqa: E402

pytestmark = pytest.mark.usefixtures("interpreter")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
every_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
every_precision = pytest.mark.parametrize("precision", PRECISIONS)
# How far a score may be off, in units of |x| |c|: both are rounded to so many bits.
ERRORS = {"tf32": 2.0**-10, "bfloat16": 2.0**-7, "float16": 2.0**-10}


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    """Small tiles and pieces, so that small arrays have several of each."""
    monkeypatch.setattr(gpu, "tiling_for", lambda *args: KernelTiling(32, 16, 16, 4, 2))
    monkeypatch.setattr(gpu, "PIECE", 32)
    monkeypatch.setattr(gpu, "SCREENED_CENTERS", 5)


def tensors(*arrays, dtype=torch.float32):
    return tuple(
        None if a is None else torch.asarray(a, dtype=dtype, device=DEVICE) for a in arrays
    )


def draw(n, k, d, rule, *, shifted=False):
    """Return Gaussian rows, centres, weights and a shift, with a row of zeros after the shift."""
    rng = np.random.default_rng()
    X, C = rng.standard_normal((n, d)), rng.standard_normal((k, d))
    if rule.unit_centers:
        C /= np.linalg.norm(C, axis=1, keepdims=True)
    shift = rng.standard_normal(d).astype(np.float32) if shifted else None
    X = (X + (0 if shift is None else shift)).astype(np.float32)
    X[n // 2] = 0 if shift is None else shift
    return X, C.astype(np.float32), rng.random(n).astype(np.float32), shift


def compared(X, C, shift, rule):
    """Return all scores in float64 as they are compared, and |x| |c| + bias of each."""
    Y = X.astype(np.float64) - (0 if shift is None else shift.astype(np.float64))
    C = C.astype(np.float64)
    bias = (C**2).sum(axis=1) / 2 if rule is EUCLIDEAN else 0
    S = Y @ C.T - bias
    size = np.linalg.norm(Y, axis=1)[:, None] * np.linalg.norm(C, axis=1)[None, :] + bias
    return (abs(S) if rule.ignores_sign else S), size.max(axis=1)


def check_labels(X, C, shift, rule, precision):
    """Check labels within the rounding of the precision; return the free centres."""
    labels = gpu.best_labels(*tensors(X, C, shift), rule=rule, precision=precision).cpu().numpy()
    S, size = compared(X, C, shift, rule)
    centers = labels % len(C)
    chosen = S[np.arange(len(X)), centers]
    # float32 sums of d products may be off by about d of their last digits.
    allowed = (2 * ERRORS.get(precision, 0) + (X.shape[1] + 8) * 2.0**-22) * size
    assert (chosen >= S.max(axis=1) - allowed).all()
    return centers


def check_step(X, C, weights, shift, rule, precision):
    """Check labels, and sums against those of float64, twice with the same bits."""
    centers = check_labels(X, C, shift, rule, precision)
    total, again = (
        gpu.center_sums(*tensors(X, C, shift, weights), rule=rule, precision=precision)
        for _ in range(2)
    )
    expected = lloyd_of_labels(X, C, weights, shift, centers, rule)
    for value, same, reference in zip(total, again, expected, strict=True):
        assert value.dtype == torch.float64
        assert torch.equal(value, same)
        scale = max(1e-3, float(np.abs(reference).max()))
        np.testing.assert_allclose(value.cpu().numpy(), reference, atol=2e-5 * scale, rtol=1e-4)


def lloyd_of_labels(X, C, weights, shift, centers, rule):
    """Return sums, counts and gain of rows with these centres, in float64, row by row."""
    sums, counts, gain = np.zeros(C.shape), np.zeros(rule.n_labels(len(C))), 0.0
    Y = X.astype(np.float64) - (0 if shift is None else shift.astype(np.float64))
    for y, j, w in zip(Y, centers, weights.astype(np.float64), strict=True):
        c = C[j].astype(np.float64)
        s = y @ c - (c @ c / 2 if rule is EUCLIDEAN else 0)
        length = np.linalg.norm(y)
        inverse = 1 / length if length else 0.0
        gain += w * {0: 2 * s, 1: s * s, 2: s * inverse, 3: abs(s)}[rule.code]
        sums[j] += w * y * {0: 1, 1: s, 2: inverse, 3: np.sign(s)}[rule.code]
        counts[j + len(C) * (rule is AXIS and s < 0)] += w
    return sums, counts, gain


@every_rule
@every_precision
def test_step_of_every_rule_and_precision(rule, precision):
    X, C, weights, _ = draw(45, 19, 20, rule)
    if precision == "float32":  # sums depend on the labels, not on the precision
        check_step(X, C, weights, None, rule, precision)
    else:
        check_labels(X, C, None, rule, precision)


@pytest.mark.parametrize(
    ("d", "rule"),
    [(1, AXIS), (3, EUCLIDEAN), (50, GAIN_SHAPE), (108, DIRECTION), (192, EUCLIDEAN), (257, AXIS)],
)
def test_numbers_of_features(d, rule):
    X, C, weights, shift = draw(40, 5, d, rule, shifted=rule is EUCLIDEAN)
    check_step(X, C, weights, shift, rule, "float32")


@every_rule
@pytest.mark.parametrize("k", [1, 2, 50])
def test_numbers_of_centers(rule, k):
    X, C, *_ = draw(20, k, 6, rule)
    check_labels(X, C, None, rule, "float32")
    check_labels(X, C, None, rule, "float16")


def test_many_centers(monkeypatch):
    monkeypatch.setattr(gpu, "tiling_for", lambda *args: KernelTiling(64, 128, 64, 4, 2))
    X, C, *_ = draw(70, 1600, 108, DIRECTION)
    check_labels(X, C, None, DIRECTION, "float32")


def test_sums_of_more_features_than_a_program_takes():
    check_step(*draw(20, 2, 1030, GAIN_SHAPE), rule=GAIN_SHAPE, precision="float32")


@every_rule
@every_precision
def test_ties_go_to_the_first_center(rule, precision):
    # Whole numbers are exact in all precisions, and centres come twice.
    rng = np.random.default_rng()
    X = rng.integers(-2, 3, size=(30, 4)).astype(np.float32)
    C = np.tile(rng.integers(-2, 3, size=(9, 4)), (2, 1)).astype(np.float32)
    expected, _ = lloyd_sums_reference(
        *tensors(X, C, None, np.ones(30), dtype=torch.float64), rule=rule
    )
    found = gpu.best_labels(*tensors(X, C, None), rule=rule, precision=precision)
    if precision == "float32":
        assert torch.equal(found, expected)
    else:  # any of the equal ones
        S, _ = compared(X, C, None, rule)
        np.testing.assert_array_equal(S[np.arange(30), found.cpu() % 18], S.max(axis=1))


@every_rule
@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_half_precision_at_any_scale(rule, scale):
    X, C, *_ = draw(30, 20, 8, rule)
    X, C = X * np.float32(scale), C if rule.unit_centers else C * np.float32(scale)
    for precision in ("float16", "float32"):
        check_labels(X, C, None, rule, precision)


@pytest.mark.parametrize(
    "rule", [rule for rule in RULES if rule.unit_centers], ids=lambda rule: rule.name
)
@pytest.mark.parametrize("d", [8, 300])
@pytest.mark.filterwarnings("ignore:overflow")  # of squares, which labels do not need
def test_half_precision_at_the_largest_numbers(rule, d):
    X, C, *_ = draw(30, 20, d, rule)
    X[:, 0] = np.where(X[:, 0] < 0, -4, 4) * d**0.5  # one number over 2^127 in every row
    X *= np.float32(3e38) / np.linalg.norm(X, axis=1, keepdims=True)
    assert (np.abs(X).max(axis=1) > 2.0**127).all()
    check_labels(X, C, None, rule, "float16")


@pytest.mark.parametrize("scale", [1e-30, 1e-22, 1.0, 1e20])
@pytest.mark.parametrize("d", [6, 1030])
def test_directions_of_rows_of_any_length(scale, d):
    # Their squares are beyond float32, but for 1. No two scores are nearly equal.
    rng = np.random.default_rng(0)
    X, C = rng.standard_normal((20, d)).astype(np.float32), np.eye(3, d)
    given = tensors(X * np.float32(scale), C, None, rng.random(20))
    found = gpu.center_sums(*given, rule=DIRECTION, precision="float32")
    expected = center_sums(*given, rule=DIRECTION)
    for value, reference in zip(found, expected, strict=True):
        torch.testing.assert_close(value, reference.double(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("precision", [name for name in PRECISIONS if name != "float32"])
@pytest.mark.parametrize(("of_rows", "of_centers"), [(1e30, 1e15), (1e25, 1e25)])
@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
def test_labels_of_scores_that_overflow_are_those_of_centers(precision, of_rows, of_centers):
    X, C, *_ = draw(20, 5, 6, EUCLIDEAN)  # one of the rows is zero
    given = tensors(X * np.float32(of_rows), C * np.float32(of_centers), None)
    labels = gpu.best_labels(*given, rule=EUCLIDEAN, precision=precision)
    assert ((labels >= 0) & (labels < 5)).all()


@dataclass(frozen=True)
class Fined(Euclidean):
    """K-means where rows avoid the first centre."""

    name = "fined"

    def center_bias(self, C):
        bias = super().center_bias(C)
        bias[0] += 3
        return bias


@every_precision
def test_bias_of_another_rule(precision):
    # Whole numbers are exact in all precisions.
    rng = np.random.default_rng()
    X, C = (rng.integers(-2, 3, size=(n, 4)).astype(np.float32) for n in (60, 9))
    S = X @ C.T - Fined().center_bias(C)
    given = tensors(X, C, None, np.ones(60))
    found = gpu.assign(*given[:3], rule=Fined(), precision=precision)
    labels = found.labels.cpu().numpy()
    np.testing.assert_array_equal(S[np.arange(60), labels], S.max(axis=1))
    np.testing.assert_array_equal(found.scores.cpu(), S.max(axis=1))
    if precision == "float32":
        np.testing.assert_array_equal(labels, best_labels(X, C, None, rule=Fined()))
    total = gpu.center_sums(*given, rule=Fined(), precision=precision)
    assert float(total.gain) == 2 * S.max(axis=1).sum(dtype=np.float64)


def test_gains_of_another_rule_are_not_those_of_axes():
    @dataclass(frozen=True)
    class Unknown(Euclidean):
        code = 4

    X, C, weights, _ = draw(8, 2, 3, EUCLIDEAN)
    with pytest.raises(Exception) as caught:
        gpu.center_sums(*tensors(X, C, None, weights), rule=Unknown(), precision="float32")
    error, messages = caught.value, ""
    while error is not None:  # the compiler names the place first, and then the cause
        error, messages = error.__cause__, messages + str(error)
    assert "needs a line for this code" in messages


@every_rule
def test_screen_gives_labels_of_float32_where_half_precision_does_not(rule):
    # Centres so near to each other that float16 mixes them up.
    rng = np.random.default_rng()
    X = rng.standard_normal((200, 12)).astype(np.float32)
    C = rng.standard_normal(12) + 1e-3 * rng.standard_normal((30, 12))
    C = (C / np.linalg.norm(C, axis=1, keepdims=True)).astype(np.float32)
    S, size = compared(X, C, None, rule)
    found = {
        precision: gpu.best_labels(*tensors(X, C, None), rule=rule, precision=precision)
        for precision in ("float16", "float32")
    }
    lost = {
        name: S.max(axis=1) - S[np.arange(200), labels.cpu().numpy() % 30]
        for name, labels in found.items()
    }
    assert (lost["float32"] <= (12 + 8) * 2.0**-22 * size).all()
    assert lost["float16"].max() > 4 * lost["float32"].max()


@every_rule
def test_fit_and_losses(rule):
    X, C, weights, shift = draw(50, 7, 9, rule, shifted=rule is EUCLIDEAN)
    wide = tensors(X, C, shift, weights, dtype=torch.float64)
    labels, total = gpu.fit_sums(*tensors(X, C, shift, weights), rule=rule, precision="float32")
    expected_labels, expected = fit_sums(*wide, rule=rule)
    assert torch.equal(labels, expected_labels)
    for value, reference in zip(total, expected, strict=True):
        torch.testing.assert_close(value, reference, rtol=1e-5, atol=1e-5)
    found = gpu.row_losses(*tensors(X, C, shift), rule=rule, precision="float32")
    torch.testing.assert_close(
        found.double(), row_losses(*wide[:3], rule=rule), rtol=1e-4, atol=1e-5
    )


def test_rows_that_are_not_contiguous():
    X, C, *_ = draw(40, 5, 6, GAIN_SHAPE)
    wide = np.zeros((40, 10), np.float32)
    wide[:, :6] = X
    expected = gpu.best_labels(*tensors(X, C, None), rule=GAIN_SHAPE, precision="float32")
    for view in (tensors(wide)[0][:, :6], tensors(X.T)[0].T):
        found = gpu.best_labels(view, *tensors(C, None), rule=GAIN_SHAPE, precision="float32")
        assert torch.equal(found, expected)


def test_centers_with_more_numbers_than_an_int32_counts():
    tiling = KernelTiling(16, 16, 32, 4, 2)
    X, C = tensors(*draw(8, 32, 288, AXIS)[:2])
    near = gpu.round_centers(C, AXIS, "float16", tiling)
    # 4 GB of addresses, of which few are touched: the rows of the second tile end beyond 2^31.
    stride = 70_000_000
    room = torch.empty(31 * stride + 288, dtype=torch.float16, device=DEVICE)
    far = near._replace(words=room.as_strided((32, 288), (stride, 1)))
    far.words.copy_(near.words)
    found = [torch.empty(8, dtype=torch.int32, device=DEVICE) for _ in range(2)]
    for centers, labels in zip((near, far), found, strict=True):
        gpu.launch_nearest(X, centers, None, labels, labels, labels, AXIS, "float16", tiling)
    assert torch.equal(*found)


def test_one_cluster_with_most_rows():
    X, C, weights, _ = draw(300, 4, 3, EUCLIDEAN)
    C[1:] += 100  # all rows are of the first centre, in ten pieces
    check_step(X, C, weights, None, EUCLIDEAN, "float32")


@pytest.mark.parametrize("d", [*range(1, 40), 50, 108, 192, 240, 255, 256])
def test_chunks_hold_all_features_and_little_else(d):
    widths = chunk_widths(d)
    assert len(widths) <= 4
    assert d <= sum(widths) < d + 16
    assert all(w & (w - 1) == 0 and w >= 16 for w in widths)


@pytest.mark.parametrize("precision", ["screened", *PRECISIONS])
@pytest.mark.parametrize("d", [50, 108, 256, 1000])
def test_smaller_tiles_for_gpus_with_less_shared_memory(precision, d):
    tiling, wide = KernelTiling(64, 64, 32, 4, 2), sum(chunk_widths(d) or (32,))
    for limit in (227 * 1024, 99 * 1024):
        rows, centers, *_ = smaller(tiling, precision, d, limit)
        n_bytes = 4 if precision in ("float32", "tf32") else 2
        thrice = precision == "float32"
        assert ((1 + thrice) * rows + (2 + thrice) * centers) * wide * n_bytes <= limit
        assert min(rows, centers) >= 16
    assert smaller(tiling, precision, d, 2**30) == tiling


@pytest.mark.parametrize(("d", "needed"), [(176, 101_632), (192, 110_848), (208, 120_064)])
def test_shared_memory_of_pooled_codes_is_what_the_compiler_reports(d, needed):
    # Of TF32 on a GPU of compute capability 8.9, which has 99 KB.
    limit, tiling = 101_376, KernelTiling(64, 16, 32, 4, 3)
    assert 0 <= needed - shared_bytes(tiling, "tf32", d, rows_pass=True) <= 1024
    found = smaller(KernelTiling(64, 64, 32, 4, 3), "tf32", d, limit, rows_pass=True)
    assert found.rows < 64
    assert shared_bytes(found, "tf32", d, rows_pass=True) <= limit - 1024


def test_more_features_than_a_tile_holds():
    assert chunk_widths(257) is None


def as_if_on_a_gpu(monkeypatch):
    """Let the kernels run on tensors of the CPU, where host arrays go under ``device="cpu"``."""
    monkeypatch.setattr("clusterica.arrays._twins.why_no_kernels", lambda like: None)
    return config_context(device=DEVICE, gpu_kernels="triton", precision="float32")


@pytest.mark.parametrize(
    "estimator",
    [
        KMeans(4, max_iter=2, random_state=0),
        GainShapeKMeans(4, max_iter=2, random_state=0),
        SphericalKMeans(4, max_iter=2, random_state=0),
        CosineKMeans(max_iter=2, random_state=0),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_estimators_use_the_kernels(estimator, monkeypatch):
    X = np.random.default_rng(0).laplace(size=(80, 3)).astype(np.float32)
    expected = estimator.fit(X).cluster_centers_
    labels = estimator.predict(X)
    with (
        as_if_on_a_gpu(monkeypatch),
        patch.object(gpu, "center_sums", wraps=gpu.center_sums) as sums,
        patch.object(gpu, "best_labels", wraps=gpu.best_labels) as found,
    ):
        estimator.fit(X)
        np.testing.assert_allclose(estimator.cluster_centers_, expected, rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(estimator.predict(X), labels)
        n_calls = sums.call_count
        assert n_calls >= estimator.n_iter_
        assert found.call_count == 1
        estimator.fit(X.astype(np.float64))
    assert sums.call_count == n_calls  # float64 rows keep the plain operations
