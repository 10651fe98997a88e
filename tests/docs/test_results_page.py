"""The page of results counts the checks that hold and says where each result comes from."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def papers(monkeypatch):
    if not (ROOT / "benchmarks" / "papers.py").exists():
        pytest.skip("not a checkout")
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks import papers

    return papers


def made(commit="0123456789abcdef", device="a GPU", seconds=60.0, day="2026-01-02"):
    return {
        "commit": commit,
        "uncommitted_changes": False,
        "device": device,
        "seed": 0,
        "started": f"{day}T03:04:05+00:00",
        "seconds": seconds,
    }


RECORD = {
    "name": "P1-toy",
    "title": "A toy",
    "paper": "Coates & Ng 2012, nowhere",
    "claim": "1 < 2.",
    "columns": ["what", "ours"],
    "rows": [["a|b", 1.23456]],
    "note": "A *note*.",
    "pictures": [],
    "checks": [
        {"claim": "1 < 2", "holds": True, "found": "1 and 2"},
        {"claim": "2 < 1", "holds": False, "found": "2 and 1"},
    ],
    "made": made(),
    "parts": {},
}


def test_checks_and_provenance_end_a_section(papers):
    lines = papers.section(RECORD)
    assert "- Holds: 1 < 2 (1 and 2)." in lines
    assert "- Does not hold: 2 < 1 (2 and 1)." in lines
    assert lines[-2] == "Commit 0123456; seed 0; a GPU; 60 seconds; 2026-01-02."
    assert r"A \*note\*." in lines


def test_parts_are_summed(papers):
    parts = {
        "a": {"made": made(seconds=200)},
        "b": {"made": made(commit="fedcba9876", seconds=100, day="2026-01-05")},
    }
    said = papers.provenance({**RECORD, "parts": parts})
    assert (
        said
        == "Commits 0123456, fedcba9; seed 0; a GPU; 5 minutes in 2 parts; 2026-01-02 to 2026-01-05."
    )


def test_parts_that_shared_a_device_are_named(papers):
    parts = {
        "alone": {"made": made(day="2026-01-01")},
        "one": {"made": made()},
        "two": {"made": made()},
        "elsewhere": {"made": made(device="another GPU")},
        "beside others": {"made": made(day="2026-01-03") | {"device_was_shared": True}},
    }
    said = papers.provenance({**RECORD, "parts": parts})
    assert said.endswith(" seconds are longer for that: one; two; beside others.")


def test_old_files_say_that_they_are_old(papers):
    old = {key: value for key, value in RECORD.items() if key not in ("made", "parts", "checks")}
    assert papers.UNTRACED in papers.section(old)
    text = "\n".join(papers.summary([RECORD, {**old, "name": "P1-old"}]))
    assert "P1: Coates & Ng 2012\n--------------------" in text
    assert (
        "   * - :ref:`P1-toy <P1-toy>`\n     - A toy\n     - 1 of 2\n     - a GPU\n     - 0123456"
        in text
    )
    assert (
        "   * - :ref:`P1-old <P1-old>`\n     - A toy\n     - none made\n     - not known\n     - untraced"
        in text
    )


def test_a_page_for_each_paper(papers, tmp_path, monkeypatch):
    import json

    results, pages = tmp_path / "results", tmp_path / "pages"
    results.mkdir()
    table = {"columns": ["what", "Paper (%)"], "rows": [["one\ntwo", ""]]}
    for name in ("P1-toy", "P2-toy", "P2-quick"):
        record = {**RECORD, **table, "name": name, "quick": name == "P2-quick"}
        (results / f"{name}.json").write_text(json.dumps(record))
    monkeypatch.setattr(papers, "RESULTS", results)
    monkeypatch.setattr(papers, "PAGES", pages)
    papers.main()
    assert sorted(path.name for path in pages.iterdir()) == ["P1.rst", "P2.rst", "index.rst"]
    page = (pages / "P2.rst").read_text(encoding="utf-8")
    assert ".. _P2-toy:" in page
    assert "P2-quick" not in page
    # Lines of a cell stay lines, and what the paper does not print is a dash.
    assert "   * - | one\n       | two\n     - —\n" in page


def test_the_pages_are_those_of_the_files(papers, tmp_path, monkeypatch):
    pages, images = papers.PAGES, papers.IMAGES
    monkeypatch.setattr(papers, "PAGES", tmp_path / "pages")
    monkeypatch.setattr(papers, "IMAGES", tmp_path / "images")
    (tmp_path / "images").mkdir()
    papers.main()
    for page in (tmp_path / "pages").iterdir():
        kept = (pages / page.name).read_text(encoding="utf-8")
        assert page.read_text(encoding="utf-8") == kept, "run python -m benchmarks.papers"
    for image in (tmp_path / "images").iterdir():
        assert image.read_bytes() == (images / image.name).read_bytes()


def test_rows_that_a_file_does_not_have_are_named(papers):
    from clusterica.experiments.xiao_zhu_zhao_2013.table2 import PAPER

    rows = [[name, "1"] for name in PAPER if name != "kRICA, white"]
    older = {**RECORD, "name": "P4-table2", "rows": [["Sparse RBM (quoted)", "1"], *rows[1:]]}
    said = [line for line in papers.section(older) if line.startswith("Not run yet")]
    missing = "Sparse RBM; kRICA, white"
    assert said == [f"Not run yet: {missing}."]
    newer = {**older, "rows": [[name, "1"] for name in PAPER]}
    assert not any("still to be run" in line for line in papers.section(newer))
    assert not any("still to be run" in line for line in papers.section(RECORD))


def test_experiments_without_a_file_are_listed(papers):
    """Every experiment of the paper but the one that has a file."""
    from clusterica.experiments import available

    of_paper = [one for one in available() if one.name.startswith("P1-")]
    first, *others = of_paper
    text = "\n".join(papers.summary([{**RECORD, "name": first.name}]))
    (line,) = [line for line in text.splitlines() if line.startswith("Not run yet:")]
    assert all(one.name in line for one in others)
    assert f"{first.name} (" not in line


def test_untraced_values_are_named(papers):
    taken_over = {
        **made(),
        "commit": None,
        "started": None,
        "seconds": None,
        "untraced": "taken over",
    }
    some = {**RECORD, "parts": {"a": {"made": made()}, "b": {"made": taken_over}}}
    sentence = "The values of b are untraced: taken over."
    lines = papers.section(some)
    table = next(i for i, line in enumerate(lines) if line.startswith(".. list-table"))
    assert lines.index(sentence) < table
    assert lines[-2].endswith("60 seconds; 2026-01-02.")
    assert "0123456, untraced" in "\n".join(papers.summary([some]))
    every = {**RECORD, "parts": {"b": {"made": taken_over}}}
    assert "All values are untraced: taken over." in papers.section(every)


@pytest.mark.parametrize(
    ("picture", "lines"),
    [
        ("toy.png", [".. figure:: /images/toy.png", "   :alt: A toy", ""]),
        (
            {"file": "toy.png", "caption": "A *line*.", "alt": "A rising line."},
            [
                ".. figure:: /images/toy.png",
                "   :alt: A rising line.",
                "",
                r"   A \*line\*.",
                "",
            ],
        ),
    ],
)
def test_pictures_have_captions_where_the_file_has_them(
    papers, tmp_path, monkeypatch, picture, lines
):
    monkeypatch.setattr(papers, "RESULTS", tmp_path)
    monkeypatch.setattr(papers, "IMAGES", tmp_path / "images")
    (tmp_path / "images").mkdir()
    (tmp_path / "toy.png").write_bytes(b"png")
    assert papers.figure(picture, "A toy") == lines
    assert (tmp_path / "images" / "toy.png").read_bytes() == b"png"
    assert papers.figure("missing.png", "A toy") == []
