"""Sums for distributions of sources by Triton kernels against float64; test_gpu_assign says how they run."""

from unittest.mock import patch

import numpy as np
import pytest

from clusterica import config_context
from clusterica.arrays import Row
from clusterica.ica import ClusterICA
from clusterica.ops import score as reference

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

from clusterica.ops.gpu import score as gpu  # noqa: E402  # after the check that Triton is there

pytestmark = pytest.mark.usefixtures("interpreter")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    monkeypatch.setattr(gpu, "PIECE", 64)
    monkeypatch.setattr(gpu, "TILE", 32)


@pytest.mark.parametrize(
    ("n", "d", "m"), [(1, 1, 1), (64, 3, 3), (150, 20, 17), (100, 64, 64), (50, 65, 3)]
)
@pytest.mark.parametrize("precision", ["float32", "tf32", "float16"])
def test_sums_are_those_of_float64(n, d, m, precision):
    rng = np.random.default_rng()
    X = rng.laplace(size=(n, d)).astype(np.float32) + 1
    B = (rng.standard_normal((m, d)) / d**0.5).astype(np.float32)
    arrays = [torch.asarray(a, device=DEVICE) for a in (X, B, X.mean(axis=0))]
    expected = reference.score_sums.__wrapped__(*(a.double() for a in arrays))
    found, again = (gpu.score_sums(*arrays, precision=precision) for _ in range(2))
    rounding = 2e-5
    for name, value, same, right in zip(expected._fields, found, again, expected, strict=True):
        assert torch.equal(value, same), name
        scale = rounding * max(1.0, float(right.abs().max()))
        torch.testing.assert_close(value.double(), right, atol=scale, rtol=rounding, msg=name)


def test_memory_of_many_components_is_that_of_the_plain_operations(monkeypatch):
    monkeypatch.setattr(gpu, "PLAIN_ROWS", 32)
    B, mean, row = torch.eye(70), torch.zeros(70), Row(70, 4, 280, False)
    assert gpu.score_sums.row_bytes(row, B, mean) == reference.score_sums.row_bytes(row, B, mean)
    # Plain operations sum in float32, a bounded number of rows at a time; a large block is not such a sum.
    X = torch.asarray(np.random.default_rng().normal(size=(100, 70)), device=DEVICE).float()
    with patch.object(reference, "score_sums", wraps=reference.score_sums) as used:
        gpu.score_sums(X, B.to(DEVICE), mean.to(DEVICE), precision="float32")
    assert [len(call.args[0]) for call in used.call_args_list] == [32, 32, 32, 4]


def test_rows_that_are_not_contiguous():
    X = torch.asarray(np.random.default_rng().normal(size=(70, 10)), device=DEVICE).float()
    B, mean = torch.eye(4, device=DEVICE), torch.zeros(4, device=DEVICE)
    expected = gpu.score_sums(X[:, 2:6].contiguous(), B, mean, precision="float32")
    found = gpu.score_sums(X[:, 2:6], B, mean, precision="float32")
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


def test_cluster_ica_uses_the_kernels(monkeypatch):
    rng = np.random.default_rng(0)
    X = (rng.laplace(size=(200, 2)) @ rng.normal(size=(2, 2))).astype(np.float32)
    expected = ClusterICA(random_state=0).fit(X).components_
    monkeypatch.setattr("clusterica.arrays._twins.why_no_kernels", lambda like: None)
    with (
        config_context(device=DEVICE, gpu_kernels="triton"),
        patch.object(gpu, "score_sums", wraps=gpu.score_sums) as used,
    ):
        found = ClusterICA(random_state=0).fit(X).components_
    assert used.call_count > 0
    np.testing.assert_allclose(found, expected, atol=1e-3 * abs(expected).max())
