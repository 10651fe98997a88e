"""The contract of mne.preprocessing.ICA, with the sources of our estimators."""

import importlib
import os

import numpy as np
import pytest
from sklearn.decomposition import FastICA

from clusterica.ica import ClusterICA, to_mne
from clusterica.rica import RICA

# Skipped where MNE is missing, but not in CI.
mne = importlib.import_module("mne") if "CI" in os.environ else pytest.importorskip("mne")

RATE = 100.0


@pytest.fixture(scope="module")
def raw():
    """A minute of eight EEG channels in volts, and one of eye movements: blinks are the sparsest source."""
    rng = np.random.default_rng(0)
    n = int(60 * RATE)
    S = rng.laplace(size=(8, n))
    blinks = np.zeros(n)
    blinks[200::400] = 1
    S[0] = 15 * np.convolve(blinks, np.hanning(30), mode="same") + 0.05 * rng.normal(size=n)
    A = rng.normal(size=(8, 8))
    eog = S[0] + 0.1 * rng.normal(size=n)
    names = ["Fp1", "Fp2", "F3", "F4", "C3", "C4", "O1", "O2"]
    info = mne.create_info([*names, "EOG"], RATE, ["eeg"] * 8 + ["eog"])
    raw = mne.io.RawArray(
        1e-6 * np.concatenate([A @ S, eog[None] * 10]) + 1e-6, info, verbose=False
    )
    # Places on a head of 9 cm, for topographies.
    places = rng.normal(size=(8, 3)) + np.array([0, 0, 1])
    places *= 0.09 / np.linalg.norm(places, axis=1, keepdims=True)
    montage = mne.channels.make_dig_montage(
        dict(zip(names, places, strict=True)), coord_frame="head"
    )
    return raw.set_montage(montage, verbose=False)


@pytest.fixture(scope="module")
def eeg(raw):
    return raw.copy().pick("eeg", verbose=False)


def fitted(eeg, name, scale=1.0):
    X = scale * eeg.get_data().T
    if name == "ClusterICA":
        return ClusterICA(random_state=0).fit(X)
    if name == "reduced":
        return ClusterICA(5, random_state=0).fit(X)
    if name == "RICA":
        return RICA(6, max_iter=50, tol=1e-3, random_state=0).fit(X)
    return FastICA(random_state=0, whiten="unit-variance").fit(X)


NAMES = ["ClusterICA", "reduced", "RICA", "FastICA"]


@pytest.mark.parametrize("name", NAMES)
def test_sources_are_ours(eeg, name):
    model = fitted(eeg, name)
    ica = to_mne(model, eeg.info)
    found = ica.get_sources(eeg).get_data()
    expected = model.transform(eeg.get_data().T).T
    np.testing.assert_allclose(found, expected, atol=1e-9 * np.abs(expected).max())
    assert ica.n_components_ == len(model.components_)
    columns = ica.get_components()
    np.testing.assert_allclose(columns, np.linalg.pinv(model.components_), rtol=1e-6)
    V = ica.pca_components_
    np.testing.assert_allclose(V @ V.T, np.eye(8), atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_apply_takes_the_excluded_source_out(eeg, name):
    model = fitted(eeg, name)
    ica = to_mne(model, eeg.info)
    X = eeg.get_data()
    same = ica.apply(eeg.copy(), exclude=[], verbose=False).get_data()
    np.testing.assert_allclose(same, X, atol=1e-9 * np.abs(X).max())
    ica.exclude = [1]
    clean = ica.apply(eeg.copy(), verbose=False).get_data()
    source = model.transform(X.T)[:, 1]
    mixing = np.linalg.pinv(model.components_)
    np.testing.assert_allclose(
        clean, X - np.outer(mixing[:, 1], source), atol=1e-9 * np.abs(X).max()
    )
    # It is gone, and the others are as they were.
    left = model.transform(clean.T)
    assert np.abs(left[:, 1]).max() < 1e-6 * np.abs(source).max()
    np.testing.assert_allclose(left[:, 0], model.transform(X.T)[:, 0], atol=1e-6)


def test_saved_and_read_back(eeg, tmp_path):
    ica = to_mne(fitted(eeg, "ClusterICA"), eeg.info)
    ica.exclude = [2]
    ica.save(tmp_path / "sources-ica.fif", verbose=False)
    again = mne.preprocessing.read_ica(tmp_path / "sources-ica.fif", verbose=False)
    assert again.exclude == [2]
    assert again.method == "clusterica.to_mne(ClusterICA)"
    np.testing.assert_allclose(
        again.get_sources(eeg).get_data(), ica.get_sources(eeg).get_data(), rtol=1e-6, atol=1e-6
    )
    np.testing.assert_allclose(
        again.apply(eeg.copy(), verbose=False).get_data(),
        ica.apply(eeg.copy(), verbose=False).get_data(),
        atol=1e-12,
    )


def test_blinks_are_found(raw, eeg):
    model = fitted(eeg, "ClusterICA")
    ica = to_mne(model, eeg.info)
    bad, scores = ica.find_bads_eog(
        raw, ch_name="EOG", measure="correlation", threshold=0.8, verbose=False
    )
    assert bad == [0]  # the sparsest source comes first
    assert abs(scores[0]) > 0.9


def test_pictures(eeg):
    pytest.importorskip("matplotlib").use("agg")
    ica = to_mne(fitted(eeg, "ClusterICA"), eeg.info)
    assert "ICA" in repr(ica)
    figure = ica.plot_components(picks=[0, 1], show=False, verbose=False)
    assert figure is not None
    ica.plot_sources(eeg, show=False, show_scrollbars=False)
    importlib.import_module("matplotlib.pyplot").close("all")


def test_microvolts(eeg):
    model = fitted(eeg, "ClusterICA", scale=1e6)
    ica = to_mne(model, eeg.info, scale=1e6)
    expected = model.transform(1e6 * eeg.get_data().T).T
    np.testing.assert_allclose(ica.get_sources(eeg).get_data(), expected, atol=1e-8)
    X = eeg.get_data()
    kept = ica.apply(eeg.copy(), exclude=[0], verbose=False).get_data()
    removed = 1e-6 * np.outer(model.mixing_[:, 0], expected[0])
    np.testing.assert_allclose(kept, X - removed, atol=1e-9 * np.abs(X).max())


@pytest.mark.filterwarnings("ignore:RICA did not converge")
def test_what_can_not_be_given_to_mne(raw, eeg):
    model = fitted(eeg, "ClusterICA")
    with pytest.raises(ValueError, match=r"9 channels, .* 8 features; .*pick_info"):
        to_mne(model, raw.info)
    many = RICA(12, max_iter=2, tol=1.0, random_state=0).fit(eeg.get_data().T)
    with pytest.raises(ValueError, match=r"at most as many components as channels, 8, .* has 12"):
        to_mne(many, eeg.info)
    frame = eeg.to_data_frame(time_format=None, verbose=False)[eeg.ch_names[::-1]]
    turned = ClusterICA(random_state=0).fit(frame)
    with pytest.raises(ValueError, match="in the same order"):
        to_mne(turned, eeg.info)
    copies = FastICA(random_state=0).fit(eeg.get_data().T)
    copies.components_[1] = copies.components_[0]
    with pytest.raises(ValueError, match="depend on each other"):
        to_mne(copies, eeg.info)


def test_without_mne(eeg, uninstalled):
    model = fitted(eeg, "ClusterICA")
    info = eeg.info
    uninstalled("mne")
    with pytest.raises(ImportError, match=r"clusterica\[mne\]"):
        to_mne(model, info)
