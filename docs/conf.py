"""Configuration of the documentation: ``python -m sphinx -W docs OUT`` builds it, offline."""

import os
import sys
from importlib import metadata
from pathlib import Path

DOCS = Path(__file__).parent

# `python -m` puts the checkout first on the path, whose lucid/ may hold no compiled kernels.
sys.path[:] = [p for p in sys.path if Path(p).resolve() != DOCS.parent]
sys.path.insert(0, str(DOCS))  # for lucid_docs.py
os.environ |= {"MPLBACKEND": "Agg", "TQDM_DISABLE": "1"}

project = "lucid"
author = copyright = "The lucid developers"
version = release = metadata.version("lucid-numpy")

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "matplotlib.sphinxext.plot_directive",
    "sphinx_gallery.gen_gallery",
    "lucid_docs",
]
exclude_patterns = ["_build", "_templates"]
templates_path = ["_templates"]
default_role = "py:obj"
nitpicky = False
toc_object_entries_show_parents = "hide"  # the page is theirs

autosummary_generate = True
autodoc_typehints = "none"  # numpydoc's sections say it
autodoc_default_options = {"member-order": "bysource"}
numpydoc_show_class_members = False  # the template lists them
numpydoc_xref_param_type = False

plot_formats = [("png", 180)]
plot_html_show_formats = False
plot_html_show_source_link = False
plot_include_source = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",  # all of them run
    "ignore_pattern": r"__init__\.py$",
    "image_scrapers": ("lucid_docs.pictures",),
    "reset_argv": "lucid_docs.arguments",
    "within_subsection_order": "lucid_docs.by_subject",
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "min_reported_time": 1e9,  # a time without a machine says nothing
    "write_computation_times": False,
    "show_signature": False,
    "abort_on_example_error": True,
}

html_theme = "pydata_sphinx_theme"
html_title = "lucid"
html_static_path = ["_static"]
html_css_files = ["lucid.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "navbar_align": "left",
    "show_prev_next": True,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_toc_level": 2,
}
html_sidebars = {"index": []}
