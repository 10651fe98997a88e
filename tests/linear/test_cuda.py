"""Heads on a CUDA device."""

import numpy as np
import pytest

import clusterica
from clusterica.arrays import to_host
from clusterica.linear import LinearSVC
from clusterica.linear._lbfgs import PrincipalSolver

pytestmark = pytest.mark.gpu


@pytest.fixture
def cuda():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    return lambda X: torch.asarray(X, device="cuda")


@pytest.mark.parametrize("shape", ["tall", "wide"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_same_as_on_the_host(request, cuda, shape, dtype):
    X, y = request.getfixturevalue(shape)
    X = X.astype(dtype)
    expected = LinearSVC(C=0.1).fit(X, y)
    model = LinearSVC(C=0.1).fit(cuda(X), cuda(y))
    assert model.converged_
    assert model.coef_.device.type == "cuda"
    assert model.predict(cuda(X)).device.type == "cuda"
    np.testing.assert_allclose(model.objective_, expected.objective_, rtol=1e-5)
    assert model.score(cuda(X), cuda(y)) == pytest.approx(expected.score(X, y), abs=0.02)


def test_host_rows_streamed_through_the_device(cuda, tall):
    X, y = tall
    expected = LinearSVC(C=0.1).fit(X, y)
    with clusterica.config_context(device="cuda"):
        model = LinearSVC(C=0.1).fit(X, y)
    np.testing.assert_allclose(to_host(model.coef_), expected.coef_, atol=1e-2)
    np.testing.assert_allclose(model.objective_, expected.objective_, rtol=1e-5)


def test_strength_chosen_in_principal_coordinates(cuda, rng, monkeypatch):
    X = rng.normal(size=(600, 800)) * np.geomspace(1, 0.03, 800)
    y = (X[:, :4] + 0.5 * rng.normal(size=(600, 4))).argmax(axis=1)
    expected = LinearSVC(random_state=0, standardize=False).fit(X, y)
    kinds = []

    class Recorded(PrincipalSolver):
        def __init__(self, problem):
            super().__init__(problem)
            kinds.append(self)

    monkeypatch.setattr("clusterica.linear._base.PrincipalSolver", Recorded)
    model = LinearSVC(random_state=0, standardize=False).fit(cuda(X), y)
    assert len(kinds) == 1
    assert model.converged_
    np.testing.assert_allclose(np.log10(model.C_), np.log10(expected.C_), atol=0.2)
    np.testing.assert_allclose(
        model.validation_scores_.max(), expected.validation_scores_.max(), atol=0.01
    )
