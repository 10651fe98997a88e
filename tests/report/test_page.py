"""A page holds everything in one file, escaped, with pictures inside."""

import base64
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from clusterica.report import Page, png_bytes
from clusterica.report._figures import dark_color, themed_svg

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
NASTY = "<script>alert(\"x\" & 'y')</script>"


class Reader(HTMLParser):
    """Collects tags with attributes and checks that they close in order."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.words = [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in {"meta", "img", "link"}:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    def named(self, name):
        return [attributes for tag, attributes in self.tags if tag == name]


def full_page():
    page = Page(NASTY)
    page.add_heading(NASTY)
    page.add_text(NASTY)
    page.add_code(NASTY)
    page.add_figure(PNG, NASTY, alt=NASTY)
    page.add_table([(NASTY, 1.0)], columns=(NASTY, "b"), caption=NASTY)
    return page


def test_everything_is_escaped_and_closed():
    text = full_page().html()
    assert "<script>alert" not in text
    reader = Reader(text)
    assert "".join(reader.words).count(NASTY) == 9  # alt is not text
    assert reader.named("img")[0]["alt"] == NASTY
    assert len(reader.named("script")) == 1  # that of the theme


def test_nothing_is_loaded_from_elsewhere():
    reader = Reader(full_page().html())
    for _, attributes in reader.tags:
        for name in ("src", "href"):
            assert attributes.get(name, "data:").startswith("data:")
    assert "http" not in full_page().html()
    assert "url(" not in full_page().html()


def test_picture_is_inside():
    page = Page("p")
    page.add_figure(PNG, "a dot")
    (image,) = Reader(page.html()).named("img")
    assert image["alt"] == "a dot"
    head, data = image["src"].split(",")
    assert head == "data:image/png;base64"
    assert base64.b64decode(data) == PNG


def test_paragraphs():
    page = Page("p")
    page.add_text("one\nline\n\n\n\ntwo\n")
    assert page.html().count("<p>") == 2
    assert "<p>one\nline</p>\n<p>two</p>" in page.html()


def test_table_cells():
    page = Page("p")
    page.add_table([("a", 3, 0.123456), ("b", 12345, np.float32(2))], columns=("k", "n", "x"))
    text = page.html()
    assert '<td>a</td><td class="number">3</td><td class="number">0.123</td>' in text
    assert '<td>b</td><td class="number">12345</td><td class="number">2</td>' in text
    assert '<th scope="col">k</th><th scope="col" class="number">n</th>' in text


def test_table_row_of_the_wrong_length():
    with pytest.raises(ValueError, match="1 values for 2 columns"):
        Page("p").add_table([("a",)], columns=("k", "n"))


def test_wide_tables_have_headings_beside_the_cells_on_a_phone():
    page = Page("p")
    page.add_table([(1, 2, 3, "d")], columns=("a", "b", "c", NASTY))
    reader = Reader(page.html())
    assert reader.named("table")[0]["class"] == "stack"
    assert [cell["data-label"] for cell in reader.named("td")] == ["a", "b", "c", NASTY]


def figure_with_points(n):
    pyplot = pytest.importorskip("matplotlib.figure")
    figure = pyplot.Figure(figsize=(4, 3))
    axes = figure.add_subplot(title="two", facecolor="white")
    axes.plot([0, 1], [0, 1], color="#2f5d8c")
    axes.scatter(np.arange(n), np.arange(n), color="black")
    return figure


def test_figures_have_colours_for_both_themes_and_no_background():
    page = Page("p")
    page.add_figure(figure_with_points(5), "a line")
    text = page.html()
    assert "light-dark(#2f5d8c, " in text
    assert "light-dark(#000000, #e6e6e6)" in text
    assert "#ffffff" not in text.split("<figure>")[1]
    assert "http" not in text
    Reader(text)


def test_parts_of_two_figures_have_names_of_their_own():
    page = Page("p")
    page.add_figure(figure_with_points(5), "a")
    page.add_figure(figure_with_points(6), "b")
    names = [a["id"] for _, a in Reader(page.html()).tags if "id" in a]
    assert len(names) == len(set(names)) > 10
    used = re.findall(r'(?:url\(|href=")#([\w-]+)', page.html())
    assert used
    assert set(used) <= set(names)


def test_figures_with_many_points_stay_small_and_as_they_were():
    figure = figure_with_points(50_000)
    svg = themed_svg(figure)
    assert len(svg) < 300_000
    assert "data:image/png" in svg
    assert not any(artist.get_rasterized() for artist in figure.findobj())
    assert svg == themed_svg(figure)


@pytest.mark.parametrize(
    ("light", "dark"), [("#000000", "#e6e6e6"), ("#ffffff", "#171717"), ("#ff9f80", "#ff9f80")]
)
def test_dark_colours(light, dark):
    """Greys are turned round; a colour that is light stays."""
    assert dark_color(light) == dark


def test_dark_colours_can_be_seen(rng):
    for red, green, blue in rng.integers(0, 256, (200, 3)):
        if max(red, green, blue) - min(red, green, blue) >= 0.1 * 255:
            dark = dark_color(f"#{red:02x}{green:02x}{blue:02x}")
            values = [int(dark[i : i + 2], 16) for i in (1, 3, 5)]
            assert max(values) + min(values) >= 2 * 0.61 * 255


def test_write_makes_the_folder(tmp_path):
    path = full_page().write(tmp_path / "a" / "b.html")
    assert path == tmp_path / "a" / "b.html"
    assert path.read_text(encoding="utf-8") == full_page().html()


def test_png_of_path_bytes_and_figure(tmp_path):
    (tmp_path / "dot.png").write_bytes(PNG)
    assert png_bytes(tmp_path / "dot.png") == PNG
    assert png_bytes(PNG) == PNG
    figure = pytest.importorskip("matplotlib.figure").Figure()
    assert png_bytes(figure).startswith(b"\x89PNG\r\n")
    assert png_bytes(figure) == png_bytes(figure)


def test_what_is_not_a_png(tmp_path):
    (tmp_path / "dot.jpg").write_bytes(b"\xff\xd8\xff")
    with pytest.raises(ValueError, match=r"dot.jpg is not a PNG file"):
        Page("p").add_figure(tmp_path / "dot.jpg", "a dot")
    with pytest.raises(FileNotFoundError):
        Page("p").add_figure(tmp_path / "none.png", "a dot")
