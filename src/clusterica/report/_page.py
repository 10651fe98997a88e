"""A standalone HTML page: escaped text and tables, with figures that follow its light or dark theme."""

from __future__ import annotations

import base64
import io
import numbers
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from clusterica.files import write_file
from clusterica.report._figures import themed_svg

# The first eight bytes of every PNG file.
PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"


TEMPLATE = """\
<!DOCTYPE html>
<html lang="{language}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="clusterica">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>
{css}</style>
<script>
{theme}</script>
</head>
<body>
<main>
<h1>{title}</h1>
{body}
</main>
{scripts}</body>
</html>
"""


class Page:
    """An HTML page of text, tables and figures in a single file.

    Parameters
    ----------
    title : str
        Title and first heading.
    language : str, default="en"
        Language of the text, for screen readers.

    Examples
    --------
    >>> from clusterica.report import Page
    >>> page = Page("Angles")
    >>> page.add_text("Worst angle of each learner, in degrees.")
    >>> page.add_table([("KMeans", 1.25)], columns=("learner", "angle"))
    >>> "<td>KMeans</td>" in page.html()
    True
    """

    def __init__(self, title: str, *, language: str = "en") -> None:
        self.title = title
        self.language = language
        self._parts: list[str] = []
        self._needs_filters = False

    def add_heading(self, text: str) -> None:
        """Start a section.

        Parameters
        ----------
        text : str
            Its heading.
        """
        self._parts.append(f"<h2>{escape(text)}</h2>")

    def add_text(self, text: str) -> None:
        """Add paragraphs.

        Parameters
        ----------
        text : str
            Plain text; blank lines separate paragraphs.
        """
        for paragraph in text.split("\n\n"):
            if paragraph.strip():
                self._parts.append(f"<p>{escape(paragraph.strip())}</p>")

    def add_html(self, html: str, *, filters: bool = False) -> None:
        """Add HTML as it is, such as the sections of :mod:`clusterica.report.sections`.

        Parameters
        ----------
        html : str
            Elements of the page, escaped by the caller.
        filters : bool, default=False
            Whether they have grids of filters or pictures, which a script of the page draws.
        """
        self._parts.append(html)
        self._needs_filters |= filters

    def add_code(self, code: str) -> None:
        """Add a block of code.

        Parameters
        ----------
        code : str
            Commands or a program.
        """
        self._parts.append(f"<pre><code>{escape(code.strip())}</code></pre>")

    def add_figure(self, picture: Any, caption: str, *, alt: str | None = None) -> None:
        """Add a figure.

        Parameters
        ----------
        picture : matplotlib Figure, path or bytes
            A figure, which takes the colours of the page, light or dark; or a PNG given by its path or its
            bytes, which stays as it is. It is copied immediately.
        caption : str
            Caption below it.
        alt : str, default=None
            Alternative text for screen readers; the caption by default.
        """
        # Inside the page, so that it stays whole when it is moved or sent.
        text = escape(caption if alt is None else alt)
        if hasattr(picture, "savefig"):
            # Above six inches the text of a figure would be too small to read on a phone.
            wide = " wide" if picture.get_figwidth() > 6.0 else ""
            drawing = (
                f'<div class="drawing{wide}" role="img" aria-label="{text}">'
                f"{themed_svg(picture)}</div>"
            )
        else:
            data = base64.b64encode(png_bytes(picture)).decode("ascii")
            drawing = f'<img alt="{text}" src="data:image/png;base64,{data}">'
        self._parts.append(
            f"<figure>\n{drawing}\n<figcaption>{escape(caption)}</figcaption>\n</figure>"
        )

    def add_table(
        self,
        rows: Iterable[Sequence[object]],
        columns: Sequence[str],
        *,
        caption: str | None = None,
    ) -> None:
        """Add a table.

        Parameters
        ----------
        rows : iterable of sequences
            One sequence for each row. Numbers are aligned to the right, floats with three significant
            digits; other values are converted with ``str``.
        columns : sequence of str
            Headings of the columns.
        caption : str, default=None
            Caption above it.
        """
        cells = [list(row) for row in rows]
        for row in cells:
            if len(row) != len(columns):
                raise ValueError(
                    f"row {row!r} has {len(row)} values for {len(columns)} columns; give one value for each."
                )
        wide = len(columns) > 3  # too wide for a phone, where each cell shows its heading
        # A heading is aligned as its column, if that has only numbers.
        header = "".join(
            _cell("th", name, number=bool(cells) and all(_is_number(row[i]) for row in cells))
            for i, name in enumerate(columns)
        )
        body = "\n".join(
            "<tr>"
            + "".join(
                _cell("td", value, number=_is_number(value), label=name if wide else "")
                for name, value in zip(columns, row, strict=True)
            )
            + "</tr>"
            for row in cells
        )
        stack = ' class="stack"' if wide else ""
        title = "" if caption is None else f"<caption>{escape(caption)}</caption>\n"
        self._parts.append(
            f'<div class="table">\n<table{stack}>\n{title}<thead>\n<tr>{header}</tr>\n</thead>\n'
            f"<tbody>\n{body}\n</tbody>\n</table>\n</div>"
        )

    def html(self) -> str:
        """Return the page.

        Returns
        -------
        str
            The text of the HTML file.
        """
        return TEMPLATE.format(
            language=escape(self.language),
            title=escape(self.title),
            css=asset("page.css"),
            theme=asset("theme.js"),
            body="\n".join(self._parts),
            scripts=f"<script>\n{asset('filters.js')}</script>\n" if self._needs_filters else "",
        )

    def write(self, path: str | Path) -> Path:
        """Write the page to a file.

        Parameters
        ----------
        path : str or Path
            The file; its folder is created if missing.

        Returns
        -------
        Path
            The absolute path of the file.
        """
        file = Path(path).absolute()
        file.parent.mkdir(parents=True, exist_ok=True)
        return write_file(file, self.html())


def asset(name: str) -> str:
    """Return the text of a style sheet or script that ships with the package."""
    return (files("clusterica.report") / name).read_text(encoding="utf-8")


def png_bytes(picture: Any) -> bytes:
    """Return a figure as the bytes of a PNG file.

    Parameters
    ----------
    picture : matplotlib Figure, path or bytes
        A figure, or a PNG given by its path or its bytes.

    Returns
    -------
    bytes
    """
    if hasattr(picture, "savefig"):
        buffer = io.BytesIO()
        # Without the version of matplotlib the same figure gives the same bytes.
        picture.savefig(buffer, format="png", metadata={"Software": None})
        return buffer.getvalue()
    data = picture if isinstance(picture, bytes) else Path(picture).read_bytes()
    if not data.startswith(PNG_SIGNATURE):
        name = "the picture" if isinstance(picture, bytes) else str(picture)
        raise ValueError(
            f"{name} is not a PNG file; save it as one, or pass the matplotlib figure."
        )
    return data


def _is_number(value: object) -> bool:
    """Return whether a value is formatted as a number; booleans are not."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _cell(tag: str, value: object, *, number: bool, label: str = "") -> str:
    """Return the HTML of one cell."""
    kind = ' class="number"' if number else ""
    scope = ' scope="col"' if tag == "th" else ""
    kind += f' data-label="{escape(label)}"' if label else ""
    # Counts are printed in full: 12345, not 1.23e+04.
    whole = isinstance(value, numbers.Integral)
    text = f"{value:.3g}" if number and tag == "td" and not whole else str(value)
    return f"<{tag}{scope}{kind}>{escape(text)}</{tag}>"
