"""Sphinx configuration."""

import re
import sys
from importlib.metadata import version as _version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # for contributing and mathml

project = "clusterica"
author = "The clusterica developers"
copyright = "2026, The clusterica developers"
release = _version("clusterica")
version = release

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    "contributing",
    "mathml",
]
html_math_renderer = "mathml"

exclude_patterns = ["_build", "_templates"]
templates_path = ["_templates"]
default_role = "literal"

# A reference to what is not there is a warning. Other projects are not linked: the build needs no network.
nitpicky = True
nitpick_ignore_regex = [("py:.*", r"(sklearn|collections)\..*")]

autosummary_generate = True
autodoc_typehints = "none"  # the docstrings name the types
numpydoc_class_members_toctree = False
numpydoc_show_class_members = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"plot_",
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "abort_on_example_error": True,
    "min_reported_time": 1,
    "write_computation_times": False,  # its page loads scripts from other hosts
    "nested_sections": False,
    "within_subsection_order": "FileNameSortKey",
}

html_theme = "pydata_sphinx_theme"
html_title = "clusterica"
html_static_path = ["_static"]
html_css_files = ["quiet.css"]
html_show_sourcelink = False
html_context = {"default_mode": "auto"}  # without it a first visit logs an error
toc_object_entries_show_parents = (
    "hide"  # the names of methods fit beside a page without that of the class
)
# Pages without pages below them need no column for these, and their tables need the room.
html_sidebars = {
    name: []
    for name in ("architecture", "benchmarks", "install", "matlab", "papers", "quickstart", "trust")
}
html_theme_options = {
    "navbar_align": "left",
    "header_links_before_dropdown": 6,  # the API reference is the last of them
    "navbar_end": ["theme-switcher"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "show_prev_next": False,
    "show_nav_level": 2,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}


def skip_inherited_housekeeping(app, what, name, obj, skip, options):
    """Leave out what every scikit-learn estimator inherits and scikit-learn documents."""
    inherited = str(getattr(obj, "__module__", "")).startswith("sklearn.")
    return True if inherited and name not in {"fit_predict", "fit_transform"} else None


def mend_types(app, what, name, obj, options, lines):
    """Join types that go over two lines; keep names such as n_iter_ in them from being links."""
    joined = re.sub(r"(?<!\\)\\\n\s*", "", "\n".join(lines)).split("\n")
    for i, line in enumerate(joined):
        if header := re.match(r"([\w, *]+ : )(.+)", line):
            joined[i] = header[1] + re.sub(r"(?<![`\w])(\w+_)(?![`\w])", r"``\1``", header[2])
    lines[:] = joined


def setup(app):
    app.connect("autodoc-skip-member", skip_inherited_housekeeping)
    app.connect("autodoc-process-docstring", mend_types, priority=400)  # before numpydoc, at 500
