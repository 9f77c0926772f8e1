"""Configuration of the documentation: ``python -m sphinx -W docs OUT`` builds it, offline."""

import os
import sys
import zlib
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
# From [project.urls] of pyproject.toml, the one place for it; without, there is no link.
repository = dict(
    url.split(", ") for url in metadata.metadata("lucid-numpy").get_all("Project-URL") or ()
).get("Repository")

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.viewcode",
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
# Beside lucid.Tensor's page, where file names have no case.
autosummary_filename_map = {"lucid.tensor": "lucid.tensor_function"}
autodoc_typehints = "none"  # numpydoc's sections say it
autodoc_default_options = {"member-order": "bysource"}
numpydoc_show_class_members = False  # the template lists them
numpydoc_xref_param_type = True
numpydoc_xref_ignore = "all"  # but for these
numpydoc_xref_aliases = {
    **{
        name: f":obj:`{name}`"
        for name in (
            *("ImportError", "NotImplementedError", "RuntimeError", "RuntimeWarning", "TypeError"),
            *(
                "ValueError",
                "numpy.exceptions.AxisError",
                "numpy.ndarray",
                "numpy.random.Generator",
            ),
        )
    },
    "ndarray": "numpy.ndarray",
    "dtype": "numpy.dtype",
    "Tensor": "lucid.Tensor",
    "Parameter": "lucid.nn.Parameter",
    "Module": "lucid.nn.Module",
    "Moments": "lucid.Moments",
    "OpSchema": "lucid.autograd.OpSchema",
    "AmpPolicy": "lucid.autograd.AmpPolicy",
    "GradcheckError": "lucid.autograd.GradcheckError",
}
viewcode_line_numbers = True


def inventory(project):
    """Compress what pages refer to of a project; by hand, since the build has no network."""
    text = (DOCS / "inventories" / f"{project}.txt").read_bytes()
    *head, objects = text.split(b"\n", 3)
    head.append(b"# The remainder of this file is compressed using zlib.\n")
    path = DOCS / "generated" / f"{project}.inv"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"\n".join(head) + zlib.compress(objects))
    return str(path)


intersphinx_mapping = {
    "numpy": ("https://numpy.org/doc/stable", inventory("numpy")),
    "python": ("https://docs.python.org/3", inventory("python")),
    "scipy": ("https://docs.scipy.org/doc/scipy", inventory("scipy")),
}

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
html_title = f"lucid {version}"
html_static_path = ["_static"]
html_css_files = ["lucid.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "navbar_align": "left",
    "logo": {"text": f"lucid {version}"},
    "show_prev_next": True,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_toc_level": 2,
}
if repository:
    html_theme_options["icon_links"] = [
        {"name": "Repository", "url": repository, "icon": "fa-solid fa-code-branch"}
    ]
html_sidebars = {"index": []}
