"""The claims of P1, figures 3, 4, 7 and 8, and on the amount of data, hold in their quick versions."""

import json

import numpy as np
import pytest

from clusterica.datasets import make_sparse_images
from clusterica.experiments import Context, run
from clusterica.experiments._measures import nearest_cosines
from clusterica.experiments._patches import PatchSource
from clusterica.experiments.coates_ng_2012 import data as data_module
from clusterica.experiments.coates_ng_2012._sparse_coding import learn_sparse_code
from clusterica.experiments.coates_ng_2012.data import Grid, Point, growth
from clusterica.experiments.coates_ng_2012.fig7 import half_energy
from clusterica.preprocessing import Whitener

pytest.importorskip("matplotlib")

SMALL = (
    Grid(4, (100, 300, 1000, 3000), (100, 300, 1000), 2),
    Grid(6, (300, 1000, 3000, 10_000), (300, 1000), 1),
)


@pytest.fixture(scope="module")
def figure_3(tmp_path_factory):
    return run("P1-fig3", quick=True, output=tmp_path_factory.mktemp("fig3"))


@pytest.fixture(scope="module")
def figure_4(tmp_path_factory):
    return run("P1-fig4", quick=True, output=tmp_path_factory.mktemp("fig4"))


@pytest.fixture(scope="module")
def figure_7(tmp_path_factory):
    return run("P1-fig7", quick=True, output=tmp_path_factory.mktemp("fig7"))


@pytest.fixture(scope="module")
def figure_8(tmp_path_factory):
    return run("P1-fig8", quick=True, output=tmp_path_factory.mktemp("fig8"))


@pytest.fixture(scope="module")
def amount(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(data_module, "QUICK", SMALL)
        return run("P1-data", quick=True, output=tmp_path_factory.mktemp("data"))


@pytest.mark.parametrize("kind", ["pixels", "gratings", "gabors"])
def test_atoms_are_found_though_no_image_looks_like_them(figure_3, kind):
    values = figure_3.result.values[kind]
    assert values["random_share_found"] > 0.7
    assert values["orthogonal_share_found"] > 0.97
    assert values["orthogonal_mean_cosine"] > 0.97
    assert values["nearest_image_cosine"] < 0.8


def test_centroids_respond_as_sparsely_as_sparse_coding(figure_4):
    kurtosis = figure_4.result.values["median_excess_kurtosis"]
    rest = max(kurtosis["patch"], kurtosis["random"])
    assert kurtosis["centroid"] > 1.3 * rest
    assert kurtosis["basis"] > 1.3 * rest
    assert kurtosis["centroid"] > 0.7 * kurtosis["basis"]


def test_clusters_of_large_patches_are_single_patches(figure_4):
    small, *_, large = figure_4.result.values["clusters"].values()
    assert small["single_in_effect"] < 0.1
    assert large["single_in_effect"] > 0.25
    assert large["median_effective_patches"] < 0.3 * small["median_effective_patches"]


def test_each_centroid_uses_one_half(figure_7):
    pairs, random = (figure_7.result.values[name] for name in ("pairs", "random"))
    assert pairs["share_in_one_half"] > 0.9
    assert pairs["mean_half_energy"] > 0.95 > 0.7 > random["mean_half_energy"]


def test_pairs_need_more_data_than_halves(figure_7):
    pairs = figure_7.result.values["pairs"]
    assert pairs["few"]["share_in_one_half"] < pairs["share_in_one_half"]
    assert pairs["kurtosis_few"] < pairs["kurtosis_few_apart"]


def test_half_energy_worked_by_hand():
    centers = np.array([[3.0, 0.0, 0.0, 4.0], [0.0, 2.0, 0.0, 0.0]])
    np.testing.assert_allclose(half_energy(centers), [16 / 25, 1.0])


def test_nearest_cosines_worked_by_hand():
    atoms = np.array([[2.0, 0.0], [0.0, 1.0]])
    found = np.array([[-3.0, 4.0], [0.0, -7.0], [5.0, 0.0]])
    np.testing.assert_allclose(nearest_cosines(atoms, found), [1, 1])
    np.testing.assert_allclose(nearest_cosines(atoms, found[:1]), [0.6, 0.8])


@pytest.mark.parametrize("name", ["P1-fig4", "P1-fig7"])
def test_tensors_give_the_numbers_of_arrays(name, figure_4, figure_7, tmp_path):
    pytest.importorskip("torch")
    arrays = {"P1-fig4": figure_4, "P1-fig7": figure_7}[name].result
    tensors = run(name, quick=True, output=tmp_path, device="cpu").result
    for first, second in zip(flat(arrays.values), flat(tensors.values), strict=True):
        assert second == pytest.approx(first, rel=0.1, abs=0.05)


def flat(values):
    """List the numbers of nested dicts."""
    return [x for v in values.values() for x in (flat(v) if isinstance(v, dict) else [v])]


def test_kmeans_needs_more_data_in_more_dimensions(amount):
    needed = amount.result.values["examples_needed"]
    assert needed["kmeans"]["d36"] > 2 * needed["kmeans"]["d16"]
    assert needed["sparse_coding"]["d36"] < needed["kmeans"]["d36"]


def test_kmeans_needs_whitening_and_heavy_tails(amount):
    found = {name: case["kmeans"] for name, case in amount.result.values["conditions"].items()}
    assert found["whitened"] > 0.6 > 0.2 > found["not_whitened"]
    assert found["sparser"] > 0.3 > 0.1 > found["laplace"]


def test_examples_needed_are_read_off_the_curve():
    rising = [Point(100, 0.0, 0.5, 1.0), Point(10_000, 1.0, 1.0, 1.0)]
    assert data_module._needed(rising) == pytest.approx(1000)
    assert data_module._needed(rising[1:]) == 10_000
    assert data_module._needed(rising[:1]) is None


def test_growth_is_the_slope_on_logarithmic_axes():
    assert growth({2: 12.0, 4: 48.0, 8: 192.0, 16: None}) == pytest.approx(2)
    assert growth({2: 12.0, 4: None}) is None


def test_sparse_coding_finds_what_scikit_learn_finds():
    from sklearn.decomposition import MiniBatchDictionaryLearning

    images, dictionary = make_sparse_images(
        1000, kind="gabors", size=4, density=0.4, random_state=3
    )
    X, atoms = images.reshape(1000, -1).astype(np.float64), dictionary.reshape(16, -1)
    whitener = Whitener(eps=0.0).fit(X)
    Y = whitener.transform(X)
    ours = learn_sparse_code(
        Y, 16, alpha=1.0, n_passes=15, batch_size=50, random_state=np.random.default_rng(0)
    )
    theirs = MiniBatchDictionaryLearning(
        16,
        alpha=1.0,
        max_iter=8,
        batch_size=16,
        fit_algorithm="cd",
        dict_init=Y[:16],
        random_state=0,
    )
    white = atoms @ whitener.whitening_.T
    assert np.allclose(np.linalg.norm(ours, axis=1), 1, atol=1e-5)
    both = [nearest_cosines(white, found) for found in (ours, theirs.fit(Y).components_)]
    assert np.mean(both[0] > 0.95) >= 0.9
    assert np.median(both[0]) > np.median(both[1]) - 0.02


def test_patches_of_a_folder_are_cut_from_its_images(tmp_path):
    image = pytest.importorskip("PIL.Image")
    folder = tmp_path / "BSDS500" / "train"
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for index, shape in enumerate([(20, 30, 3), (30, 20, 3)]):
        pixels = rng.integers(256, size=shape, dtype=np.uint8)
        image.fromarray(pixels).save(folder / f"{index}.png")
    source = PatchSource(Context(data=tmp_path), color=True)
    patches = source.draw(50, 4, rng=np.random.default_rng(1)).reshape(50, 4, 4, 3)
    assert "2 images" in source.name
    known = {
        window.transpose(1, 2, 0).tobytes()
        for one in source._images
        for window in np.lib.stride_tricks.sliding_window_view(one, (4, 4), axis=(0, 1)).reshape(
            -1, 3, 4, 4
        )
    }
    assert all(patch.astype(np.uint8).tobytes() in known for patch in patches)


def test_only_training_images_are_read(tmp_path):
    image = pytest.importorskip("PIL.Image")
    for index, part in enumerate(("train", "val", "test")):
        folder = tmp_path / "BSDS500" / "data" / "images" / part
        folder.mkdir(parents=True)
        image.fromarray(np.full((12, 12), 50 * index, dtype=np.uint8)).save(folder / "1.png")
    source = PatchSource(Context(data=tmp_path))
    assert source.name == "1 images of BSDS500"
    assert not source.draw(
        5, 4, rng=np.random.default_rng(0)
    ).any()  # those of the others are not 0


def test_data_without_the_images_is_an_error(tmp_path):
    with pytest.raises(NotADirectoryError, match="BSDS500 does not exist"):
        PatchSource(Context(data=tmp_path))


def test_filters_of_a_group_are_alike(figure_8):
    assert all(check.holds for check in figure_8.result.checks)


def test_files(figure_3, figure_4, figure_7, figure_8, amount):
    expected = {"P1-fig3": 2, "P1-fig4": 2, "P1-fig7": 1, "P1-fig8": 1, "P1-data": 1}
    for outcome in (figure_3, figure_4, figure_7, figure_8, amount):
        record = json.loads(outcome.json_path.read_text(encoding="utf-8"))
        assert record["settings"]
        assert len(outcome.picture_paths) == expected[outcome.experiment.name]
        assert all(path.stat().st_size > 10_000 for path in outcome.picture_paths)
