"""Pictures of Vinnikov & Shalev-Shwartz 2014: figure 2, J over angles, lemma 3, conjecture 1, section 7."""

from __future__ import annotations

from typing import Any

import numpy as np

from clusterica.experiments._panels import side_by_side
from clusterica.experiments._result import Picture

BLUE, RED, GREY = "#1f5fa8", "#d62728", "0.6"


def plane(degrees: np.ndarray, J: np.ndarray) -> Picture:
    """Draw figure 2, and the objective of two unit vectors over their angles.

    Parameters
    ----------
    degrees : ndarray of shape (n_angles,)
        Angles.
    J : ndarray of shape (n_angles, n_angles)
        Objective.
    """
    figure, (left, right) = side_by_side(2, width=8.8, height=4.1)
    corners = np.array([[1, 0], [0, 1], [-1, 0], [0, -1], [1, 0]])
    left.plot(*corners.T, color=BLUE, linewidth=1.6)
    for slope in (1, -1):
        left.axline((0, 0), slope=slope, color=RED, linestyle=":", linewidth=1.6)
    style = {"arrowstyle": "-|>", "color": BLUE, "linewidth": 2.4, "shrinkA": 0, "shrinkB": 0}
    for tip in corners[:4]:
        left.annotate("", xy=tuple(tip), xytext=(0, 0), arrowprops=style)
    names = ("$e_1$", "$e_2$", "$-e_1$", "$-e_2$")
    for name, (x, y) in zip(names, 1.17 * corners[:4], strict=True):
        left.text(x, y, name, ha="center", va="center")
    left.set(
        xlim=(-1.4, 1.4), ylim=(-1.4, 1.4), aspect="equal", xticks=[-1, 0, 1], yticks=[-1, 0, 1]
    )
    left.set_title("Support of $u_{lap}$, cells and maximiser")

    image = right.pcolormesh(degrees, degrees, J, cmap="viridis", rasterized=True)
    right.plot([0, 90], [90, 0], "o", color=RED, markersize=7, clip_on=False)
    right.set(xlabel="angle of $c_1$ (°)", ylabel="angle of $c_2$ (°)", aspect="equal")
    right.set(xticks=range(0, 180, 45), yticks=range(0, 180, 45))
    right.set_title("$J(c_1, c_2)$ and its maximum")
    figure.colorbar(image, ax=right, shrink=0.85)
    return Picture(
        figure,
        caption="Left, figure 2 of the paper: the support of u_lap (solid), the boundaries of the "
        "clusters (dotted) and the maximiser (arrows). Right: the objective of every pair of unit "
        "vectors, with the axes in red.",
        alt="A square on its corner with four arrows to its corners and dotted diagonals; beside it "
        "a map of the objective with two red dots at 0 and 90 degrees.",
    )


def proportions(parts: list[tuple[int, np.ndarray, np.ndarray]]) -> Picture:
    """Draw one objective over the other, with the line of lemma 3.

    Parameters
    ----------
    parts : list of (d, J_ulap, J_slap)
        Objectives of the same sets of unit vectors.
    """
    figure, panels = side_by_side(len(parts), width=3.2 * len(parts), height=3.3)
    for ax, (d, J_ulap, J_slap) in zip(panels, parts, strict=True):
        ends = np.array([J_ulap.min(), J_ulap.max()])
        ax.plot(ends, ends * d / np.sqrt(2), color=RED, linewidth=1, label="slope $d/\\sqrt{2}$")
        ax.plot(J_ulap, J_slap, "o", color=BLUE, markersize=3, alpha=0.7, label="a set c")
        ax.set(title=f"d = {d}", xlabel="$J$ of $u_{lap}$")
        ax.locator_params(nbins=4)
        ax.grid(alpha=0.25)
    panels[0].set_ylabel("$J$ of $s_{lap}$")
    panels[0].legend(fontsize=8)
    return Picture(
        figure,
        caption="Lemma 3: both objectives of random sets of unit vectors, and the line of the lemma.",
        alt="Three scatter plots, each with a straight line.",
        name="lemma3",
    )


def searches(parts: list[tuple[int, np.ndarray, np.ndarray]]) -> Picture:
    """Draw the objective, relative to that of the axes, over the distance from them.

    Parameters
    ----------
    parts : list of (d, ends, around)
        Ends of the starts and random sets around the axes, each of shape (n, 3).
    """
    figure, panels = side_by_side(len(parts), width=3.2 * len(parts), height=3.3)
    for ax, (d, ends, around) in zip(panels, parts, strict=True):
        ax.axhline(0, color=GREY, linewidth=0.8)
        ax.plot(around[:, 0], 100 * around[:, 1], "o", color=BLUE, markersize=3, alpha=0.6)
        ax.plot(ends[:, 0], 100 * ends[:, 1], "o", color=RED, markersize=5)
        ax.set(title=f"d = {d}", xlabel="distance from the axes")
        ax.grid(alpha=0.25)
    panels[0].set_ylabel("$J$ against that of the axes (%)")
    return Picture(
        figure,
        caption="Conjecture 1, on fresh rows: random sets of unit vectors around the axes (blue) and "
        "the ends of all climbs from random starts (red).",
        alt="Three scatter plots of the objective over the distance from the axes.",
        name="conjecture",
    )


def codes(parts: list[tuple[np.ndarray, np.ndarray]]) -> Picture:
    """Draw the code of one centroid over its source, for unit rows and rows as they are.

    Parameters
    ----------
    parts : list of (sources, codes)
        For unit rows, then for rows as they are; each of shape (n_samples,).
    """
    figure, panels = side_by_side(2, width=7.6, height=3.5)
    titles = ("Rows of unit length", "Rows as they are")
    for ax, (source, code), title in zip(panels, parts, titles, strict=True):
        shown: Any = slice(None, 5000)
        ax.plot(source[shown], code[shown], ".", color=BLUE, markersize=2, alpha=0.5)
        ax.set(title=title, xlabel="source $s_i$")
        ax.grid(alpha=0.25)
    panels[0].set_ylabel("triangle code $f_i$")
    return Picture(
        figure,
        caption="Section 7: the code of one of 2d centroids over the source that it stands for.",
        alt="Two scatter plots of codes over sources.",
        name="section7",
    )
