"""partial_fit in any order of calls, against a fit, or against a loop over the same batches."""

import pickle

import numpy as np
import pytest
import reference
from cases import CASES, assert_close, host, put, quiet
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sklearn.base import clone

from clusterica.cluster import CosineKMeans, GainShapeKMeans, KMeans, SphericalKMeans
from clusterica.dictionaries import SparseCoding
from clusterica.preprocessing import Whitener
from clusterica.rica import RICA

D = 3
seeds = st.integers(0, 2**32 - 1)
places = st.sampled_from(["numpy", "fortran", "strict", "torch", "dask", "blocks"])
EPS = np.finfo(np.float64).eps


class Batches(RuleBasedStateMachine):
    """A model that sees batches of rows, now and then stored and loaded in between."""

    def __init__(self):
        super().__init__()
        self.batches, self.place = [], "numpy"

    def make(self):
        raise NotImplementedError

    @initialize(place=places)
    def begin(self, place):
        self.place, self.model = place, self.make()

    def draw(self, seed, n):
        return np.random.default_rng(seed).laplace(size=(n, D)) + np.array([1.0, 0.0, -1.0])

    @rule(seed=seeds, n=st.integers(8, 20))
    def see(self, seed, n):
        X = self.draw(seed, n)
        with quiet():
            self.model.partial_fit(put(X, self.place, cut=7))
        self.batches.append(X)
        self.check()

    @precondition(lambda self: self.batches)
    @rule()
    def store(self):
        self.model = pickle.loads(pickle.dumps(self.model))

    @precondition(lambda self: self.batches)
    @rule()
    def refuse(self):
        """A batch that is refused leaves no trace."""
        before = {k: np.copy(host(v)) for k, v in self.learned().items()}
        with pytest.raises(ValueError), quiet():
            self.model.partial_fit(put(np.full((9, D), np.nan), "numpy"))
        for name, values in self.learned().items():
            np.testing.assert_array_equal(host(values), before[name])

    def learned(self):
        return {
            name: getattr(self.model, name)
            for name in ("mean_", "covariance_", "cluster_centers_", "components_")
            if hasattr(self.model, name)
        }

    def check(self):
        raise NotImplementedError


class WhitenerBatches(Batches):
    """Moments add up exactly: partial_fit is fit on all rows."""

    def make(self):
        return Whitener(eps="1%")

    def check(self):
        X = np.concatenate(self.batches)
        mean, covariance = reference.covariance(X)
        size = np.abs(X).max()
        error = 8 * len(X) * EPS * size * (size + 1) * len(self.batches)
        assert_close(self.model.mean_, mean, error, "mean_")
        assert_close(self.model.covariance_, covariance, 4 * error, "covariance_")
        assert self.model.n_samples_seen_ == len(X)
        with quiet():
            fitted = clone(self.model).fit(put(X, self.place))
        condition = np.linalg.cond(covariance)
        apart = 64 * D * error * condition * np.abs(host(fitted.whitening_)).max()
        assert_close(self.model.whitening_, host(fitted.whitening_), apart, "whitening_")


class KMeansBatches(Batches):
    """Each centre is a running sum of what it received, as in a loop over rows."""

    kind, make_model = "euclidean", staticmethod(lambda **s: KMeans(2, **s))

    def make(self):
        C = np.random.default_rng(5).normal(size=(2, D))
        C = C if self.kind == "euclidean" else reference.units(C)
        self.C = np.concatenate([C, -C]) if self.kind == "axis" else C
        self.mass = np.full(2, 1.0 if self.kind == "gain-shape" else 0.0)
        self.clear = True
        return self.make_model(init=C, empty="keep", random_state=0)

    def see_in_loop(self, X):
        L = reference.losses(self.kind, X, self.C)
        order = np.sort(L, axis=1)
        # A row between two centres may go either way: from there on the two histories differ.
        self.clear = self.clear and bool((order[:, 1] - order[:, 0] > 1e-9).all())
        labels, free = L.argmin(axis=1), self.C[:2]
        sums = self.mass[:, None] * free
        for x, j in zip(X, labels, strict=True):
            inner = x @ free[j % 2]
            share = {
                "euclidean": 1.0,
                "direction": 1.0,
                "gain-shape": inner,
                "axis": np.sign(inner),
            }
            x = reference.units(x[None])[0] if self.kind == "direction" else x
            sums[j % 2] += share[self.kind] * x
        if self.kind == "euclidean":
            self.mass = self.mass + np.bincount(labels, minlength=2)
            free = np.where(self.mass[:, None] > 0, sums / np.maximum(self.mass, 1)[:, None], free)
        else:
            self.mass = np.sqrt((sums**2).sum(axis=1))
            free = np.where(self.mass[:, None] > 0, reference.units(sums), free)
        self.C = np.concatenate([free, -free]) if self.kind == "axis" else free

    def check(self):
        self.see_in_loop(self.batches[-1])
        if self.clear:
            assert_close(
                self.model.cluster_centers_, self.C, 1e-9 * (1 + np.abs(self.C).max()), "centres"
            )
        assert host(self.model.counts_).sum() == sum(len(X) for X in self.batches)
        assert self.model.n_iter_ == len(self.batches)


class SphericalBatches(KMeansBatches):
    kind, make_model = "direction", staticmethod(lambda **s: SphericalKMeans(2, **s))


class GainShapeBatches(KMeansBatches):
    kind, make_model = "gain-shape", staticmethod(lambda **s: GainShapeKMeans(2, **s))


class CosineBatches(KMeansBatches):
    kind, make_model = "axis", staticmethod(lambda **s: CosineKMeans(2, **s))


class RICABatches(Batches):
    """Mean and reconstruction are those of all rows seen; steps depend on the batches alone."""

    def make(self):
        return RICA(4, random_state=0)

    def check(self):
        X = np.concatenate(self.batches)
        assert_close(self.model.mean_, X.mean(axis=0), 64 * len(X) * EPS * np.abs(X).max(), "mean_")
        W = host(self.model.components_)
        assert_close(np.sqrt((W**2).sum(axis=1)), np.ones(4), 64 * EPS, "lengths of filters")
        # On NumPy, from the beginning, the same batches: the same filters to rounding.
        again = self.make()
        with quiet():
            for batch in self.batches:
                again.partial_fit(batch)
        assert_close(W, host(again.components_), 1e-6, "components_")


class SparseCodingBatches(Batches):
    """Steps depend on the batches alone; codes are those of the atoms."""

    def make(self):
        return SparseCoding(4, alpha=0.3, random_state=0)

    def check(self):
        atoms = host(self.model.components_)
        assert_close(np.sqrt((atoms**2).sum(axis=1)), np.ones(4), 64 * EPS, "lengths of atoms")
        X = self.batches[-1]
        S, G = host(self.model.transform(put(X, self.place, cut=7))), atoms @ atoms.T
        for x, s in zip(X, S, strict=True):
            best = reference.lasso(atoms @ x, x @ x, G, 0.3)
            assert reference.lasso_value(s, atoms @ x, x @ x, G, 0.3) - best <= 1e-5 * (x @ x)


MACHINES = [
    WhitenerBatches,
    KMeansBatches,
    SphericalBatches,
    GainShapeBatches,
    CosineBatches,
    RICABatches,
    SparseCodingBatches,
]


@pytest.mark.parametrize("speed", ["quick", pytest.param("slow", marks=pytest.mark.slow)])
@pytest.mark.parametrize("machine", MACHINES)
def test_batches(machine, speed):
    # A run has several calls, so that fewer runs make as many cases.
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=max(1, CASES[speed] // 4),
            stateful_step_count=6,
            deadline=None,
            derandomize=False,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_every_estimator_with_partial_fit_has_a_machine():
    from clusterica import (
        cluster,
        dictionaries,
        encoders,
        ica,
        images,
        linear,
        networks,
        preprocessing,
        rica,
    )

    packages = (cluster, dictionaries, encoders, ica, images, linear, networks, preprocessing, rica)
    public = {getattr(package, name) for package in packages for name in package.__all__}
    have = {c for c in public if hasattr(c, "partial_fit") and c.__name__ != "BaseKMeans"}
    made = set()
    for machine in MACHINES:
        made.add(type(machine().make()))
    assert made == have
