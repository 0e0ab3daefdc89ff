"""Sphinx settings. The build treats warnings as errors (``sphinx-build -W``)."""

from __future__ import annotations

import sys
from pathlib import Path

from diffkern._version import __version__

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "diffkern"
author = "The diffkern developers"
copyright = "the diffkern developers"  # noqa: A001 - Sphinx reads this name
release = __version__
version = __version__

extensions = [
    "back_links",
    "changelog_page",
    "gallery",
    "mathml",
    "reference",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
]
exclude_patterns = ["_build"]
html_math_renderer = "mathml"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_theme = "furo"
html_static_path = ["_static"]
templates_path = ["_templates"]
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/versions.html",  # of tools/docs_versions.py; empty in a build of one version
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}
html_css_files = ["pages.css"]
html_title = f"diffkern {__version__}"
# A search for a function's name finds the function first.
html_search_scorer = str(Path(__file__).parent / "_ext" / "search_scorer.js")
toc_object_entries_show_parents = "hide"

napoleon_google_docstring = False
napoleon_use_rtype = False
autodoc_member_order = "bysource"
autodoc_typehints = "signature"

nitpicky = True
_PACKAGES = "|".join(["numpy", "torch", "jax", "cuda", "numba", *sorted(sys.stdlib_module_names)])
_INTERNAL = "compiler|contracts|host|ir|kernels|lang|process|runtime|shipping|transforms"
nitpick_ignore_regex = [
    # Of other packages, whose inventories a build without a network cannot have.
    ("py:.*", rf"({_PACKAGES})(\..*)?"),
    # Words of types in docstrings, such as `sequence, optional`, and their choices, such as `{"cpu", "cuda"}`.
    ("py:class", r"[a-z_]+( [a-z_]+)*"),
    ("py:class", r'.*["{}…].*|built-in'),
    # Modules that are not public, and variables for types: what is public of them stands under its public name.
    ("py:.*", rf"diffkern\.({_INTERNAL}|testing\.comparison)(\.\w+)+"),
    ("py:class", r"diffkern\.warp\.declare\._\w+"),
    ("py:class", r"_\w+|CudaDevice|Path|Dialect|KernelProtocol|KernelVersion|JaxCallable|JaxKernel|Plan|TorchFunction"),
]
