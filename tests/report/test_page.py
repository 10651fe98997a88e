"""A page holds everything in one file, escaped, with pictures inside."""

import base64
from html.parser import HTMLParser

import numpy as np
import pytest

from clusterica.report import Page, png_bytes

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
    assert "<script" not in text
    reader = Reader(text)
    assert "".join(reader.words).count(NASTY) == 9  # alt is not text
    assert reader.named("img")[0]["alt"] == NASTY


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
