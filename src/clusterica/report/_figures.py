"""matplotlib figures as SVG in a page, whose colours c become light-dark(c, dark(c)) and follow its theme."""

from __future__ import annotations

import colorsys
import hashlib
import io
import re
from typing import Any


def themed_svg(figure: Any) -> str:
    """Return a figure as the text of an SVG element without background, with colours for both themes.

    Parameters
    ----------
    figure : matplotlib Figure
        The figure. It is not changed.

    Returns
    -------
    str
    """
    from matplotlib import rc_context

    # A point takes about 100 bytes of SVG: scatter plots and lines of 2,000 and more become pixels.
    many = [
        artist
        for artist in figure.findobj()
        if (hasattr(artist, "get_offsets") and len(artist.get_offsets()) >= 2000)
        or (hasattr(artist, "get_xdata") and len(artist.get_xdata(orig=False)) >= 2000)
    ]
    before = [artist.get_rasterized() for artist in many]
    buffer = io.StringIO()
    try:
        for artist in many:
            artist.set_rasterized(True)
        # Paths in place of text look the same everywhere; the salt gives the same file every time.
        with rc_context({"svg.fonttype": "path", "svg.hashsalt": "clusterica"}):
            nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
            # These have two pixels for each point of the page, for sharp screens.
            figure.savefig(buffer, format="svg", transparent=True, dpi=144, metadata=nothing)
    finally:
        for artist, value in zip(many, before, strict=True):
            artist.set_rasterized(value)
    svg = buffer.getvalue()
    # An element of a page has no declarations, names of its own, and two colours each.
    svg = svg[svg.index("<svg") :]
    # The style is for all elements of a page; page.css has it for figures.
    svg = re.sub(r"<(metadata|style)\b.*?</\1>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", svg).replace("xlink:href", "href")
    # The names of parts are the same in all figures, and a page may have several.
    name = "f" + hashlib.sha256(svg.encode()).hexdigest()[:8]
    svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\1{name}-", svg)

    def both(match: re.Match[str]) -> str:
        what, color = match.groups()
        # The first is for browsers that do not know light-dark().
        return f"{what}: {color}; {what}: light-dark({color}, {dark_color(color)})"

    return re.sub(r"\b(fill|stroke): (#[0-9a-f]{6})", both, svg)


def dark_color(color: str) -> str:
    """Return the colour for a dark page: greys are inverted, dark colours made lighter.

    Parameters
    ----------
    color : str
        ``#rrggbb``, meant for white paper.

    Returns
    -------
    str
        ``#rrggbb``.
    """
    red, green, blue = (int(color[i : i + 2], 16) / 255 for i in (1, 3, 5))
    if max(red, green, blue) - min(red, green, blue) < 0.08:
        # Black becomes the ink of the dark page and white its paper.
        rgb = (0.9 - 0.81 * (red + green + blue) / 3,) * 3
    else:
        hue, lightness, saturation = colorsys.rgb_to_hls(red, green, blue)
        rgb = colorsys.hls_to_rgb(hue, max(lightness, 0.62), saturation)
    return "#" + "".join(f"{round(255 * value):02x}" for value in rgb)
