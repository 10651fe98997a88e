"""The page of a model in a real browser: sorting, opening, keys, themes, a phone, and nothing from outside.

Without Chromium or Playwright the tests fail in continuous integration on Linux, and are skipped elsewhere.
"""

import os
import re
import shutil
import sys

import numpy as np
import pytest

from clusterica.report import Page, model_page
from clusterica.report.sections import add_signals

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PHONE = 360


def missing(what):
    """Skip, or fail where the tests must not be skipped unseen."""
    if "CI" in os.environ and sys.platform == "linux":
        pytest.fail(f"{what} is missing; run make browser")
    pytest.skip(f"{what} is missing; make browser installs it")


@pytest.fixture(scope="module")
def browser():
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("Playwright")
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        missing("Chromium")
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield found
        found.close()


@pytest.fixture(scope="module")
def page_file(classifier, summary, tmp_path_factory):
    return model_page(classifier, summary).write(tmp_path_factory.mktemp("page") / "model.html")


@pytest.fixture
def visit(browser):
    """A function that opens a file; at the end nothing was wrong, and nothing asked for from elsewhere."""
    contexts, errors, requests = [], [], []

    def visit(path, *, width=1200, scheme="light"):
        context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("console", lambda message: errors.append(message.text))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(path.as_uri())
        return page

    yield visit
    for context in contexts:
        context.close()
    assert errors == []
    allowed = re.compile(r"file:///.*\.html$|data:|blob:")
    assert [url for url in requests if not allowed.match(url)] == []


def order_of(page):
    return page.eval_on_selector_all(
        ".filters button", "tiles => tiles.map(t => +t.dataset.filter)"
    )


def focused(page):
    return page.evaluate("document.activeElement.dataset.filter")


def luminance(page, selector, what):
    """Return the relative luminance of a colour of an element, by the formula of WCAG 2."""
    color = page.eval_on_selector(selector, f"e => getComputedStyle(e).{what}")
    rgb = np.array([float(v) for v in re.findall(r"[\d.]+", color)[:3]]) / 255
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]


@pytest.mark.parametrize(
    ("name", "sign"), [("size", -1), ("kurtosis", -1), ("frequency", 1), ("orientation", 1)]
)
def test_sorting(visit, page_file, summary, name, sign):
    page = visit(page_file)
    original = order_of(page)
    assert original == list(range(16))
    page.get_by_label("Sort by").select_option(name)
    sorted_ = order_of(page)
    values = sign * summary["banks"][0][name][sorted_]
    assert sorted(sorted_) == original
    assert (np.diff(values) >= -1e-3 * np.abs(values[1:])).all()  # the page has four digits
    page.get_by_label("Sort by").select_option("index")
    assert order_of(page) == original


def test_opening(visit, page_file, summary):
    page, bank = visit(page_file), summary["banks"][0]
    page.get_by_label("Sort by").select_option("kurtosis")
    third = order_of(page)[2]
    page.locator(".filters button").nth(2).click()
    dialog = page.get_by_role("dialog", name=f"Filter {third}", exact=True)
    assert dialog.is_visible()
    pixels = page.eval_on_selector(
        "dialog .large",
        "c => Array.from(c.getContext('2d').getImageData(0, 0, c.width, c.height).data)",
    )
    assert np.array_equal(np.reshape(pixels, (4, 4, 4))[:, :, 0], bank["pixels"][third, :, :, 0])
    assert dialog.locator(".patches canvas").count() == 8
    assert dialog.locator(".bar").count() == 40
    numbers = dict(
        zip(
            dialog.locator("dt").all_text_contents(),
            dialog.locator("dd").all_text_contents(),
            strict=True,
        )
    )
    assert float(numbers["kurtosis"]) == pytest.approx(bank["kurtosis"][third], rel=0.01)
    assert float(numbers["share of patches"].split()[0]) == pytest.approx(
        100 * bank["size"][third], rel=0.06
    )
    dialog.get_by_label("Close").click()
    assert page.locator("dialog[open]").count() == 0


def test_keyboard(visit, page_file):
    page = visit(page_file, width=PHONE)
    page.get_by_label("Sort by").focus()
    page.keyboard.press("Tab")
    assert focused(page) == "0"
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("ArrowRight")
    assert focused(page) == "1"
    across = page.evaluate(
        "getComputedStyle(document.querySelector('.filters')).gridTemplateColumns.split(' ').length"
    )
    assert 1 < across < 15
    page.keyboard.press("ArrowDown")
    assert focused(page) == str(1 + across)
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")  # at the first one, nothing moves
    assert focused(page) == "0"
    page.keyboard.press("Enter")
    title = page.locator("dialog[open] h3")
    assert title.text_content() == "Filter 0"
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert title.text_content() == "Filter 2"
    page.keyboard.press("Escape")
    # The browser closes the dialog, and the page moves the focus, in their own time.
    page.wait_for_function("document.activeElement.dataset.filter === '2'")
    assert page.locator("dialog[open]").count() == 0
    page.keyboard.press("End")
    assert focused(page) == "15"
    page.keyboard.press("Home")
    assert focused(page) == "0"


def test_names_for_screen_readers(visit, page_file):
    page = visit(page_file)
    labels = page.eval_on_selector_all(".filters button", "all => all.map(b => b.ariaLabel)")
    assert all(re.match(r"Filter \d+.*, kurtosis -?[\d.e-]+", label) for label in labels)
    assert page.locator("svg:not([aria-label]):not(.drawing svg)").count() == 0
    assert page.get_by_role("table", name="Confusion matrix").is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_themes(visit, page_file, scheme):
    page = visit(page_file, scheme=scheme)

    def is_dark():
        return luminance(page, "body", "backgroundColor") < 0.1

    assert is_dark() == (scheme == "dark")
    page.locator("button.theme").click()
    assert is_dark() == (scheme == "light")
    # It is remembered. Chromium loses about 1 of 25 changes that a reload of a file follows at once.
    for _ in range(6):
        page.reload()
        if is_dark() == (scheme == "light"):
            break
        page.locator("button.theme").click()
    else:
        pytest.fail("the theme is not remembered")
    for _ in range(2):
        paper = luminance(page, "body", "backgroundColor")
        for selector in ("body", ".lead", ".note", ".facts dt", ".confusion th"):
            values = sorted([paper, luminance(page, selector, "color")])
            assert (values[1] + 0.05) / (values[0] + 0.05) > 4.5  # WCAG, level AA
        page.locator("button.theme").click()


def test_figures_in_the_dark(visit, tmp_path):
    figures = pytest.importorskip("matplotlib.figure")
    figure = figures.Figure(figsize=(9, 3))
    figure.add_subplot(title="a title").plot([1, 2], color="black")
    page = Page("A figure")
    page.add_figure(figure, "A line.")
    opened = visit(page.write(tmp_path / "p.html"), scheme="dark")
    # The colour of everything that is drawn: no dark ink on dark paper, and no white paper.
    values = opened.eval_on_selector_all(
        ".drawing svg path, .drawing svg use",
        """all => all.flatMap(e => [getComputedStyle(e).fill, getComputedStyle(e).stroke])""",
    )
    drawn = {v for v in values if v.startswith("rgb")}
    assert drawn
    assert all(min(int(x) for x in re.findall(r"\d+", v)[:3]) > 100 for v in drawn)
    assert opened.evaluate(
        "getComputedStyle(document.querySelector('.drawing')).backgroundColor"
    ) == ("rgba(0, 0, 0, 0)")


def test_phone(visit, page_file, tmp_path):
    figures = pytest.importorskip("matplotlib.figure")
    other = Page("A page with everything that is wide")
    other.add_figure(figures.Figure(figsize=(10, 3)), "A wide figure.")
    other.add_table([("some words of a long cell", 1.5) * 4], [f"column {i}" for i in range(8)])
    other.add_code("clusterica reproduce " + "--option value " * 20)
    other.add_text("a_name_without_any_spaces_" * 20)
    add_signals(other, {"signals": np.random.default_rng(0).normal(size=(300, 3))})
    for path in (page_file, other.write(tmp_path / "wide.html")):
        page = visit(path, width=PHONE)
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE
        tables = page.eval_on_selector_all(
            ".table", "all => all.map(e => e.scrollWidth - e.clientWidth)"
        )
        assert max(tables) <= 0
    page = visit(page_file, width=PHONE)
    page.locator(".filters button").first.click()
    box = page.locator("dialog[open]").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= PHONE


def test_errors_are_drawn(visit, page_file, summary):
    page = visit(page_file)
    drawn = page.eval_on_selector_all(
        ".errors canvas",
        "all => all.map(c => Array.from(c.getContext('2d').getImageData(0, 0, c.width, c.height).data))",
    )
    for pixels, error in zip(drawn, summary["validation"]["errors"], strict=True):
        assert np.array_equal(np.reshape(pixels, (8, 8, 4))[:, :, 0], error["image"][:, :, 0])


def test_thousands_of_filters(visit, many_filters, tmp_path):
    model, found = many_filters
    page = visit(model_page(model, found).write(tmp_path / "large.html"))
    assert page.locator(".filters button").count() == 4000
    page.get_by_label("Sort by").select_option("kurtosis")
    first, *_, last = order_of(page)
    page.locator(".filters button").first.click()
    assert page.locator("dialog[open] .patches canvas").count() == 8
    page.keyboard.press("Escape")
    page.wait_for_function("document.activeElement.dataset.filter !== undefined")
    page.keyboard.press("End")
    assert focused(page) == str(last) != str(first)
    page.keyboard.press("Enter")
    assert "Patches are kept for the" in page.locator("dialog[open]").text_content()
