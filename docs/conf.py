"""Sphinx settings. The build treats warnings as errors (``sphinx-build -W``)."""

from __future__ import annotations

from diffkern._version import __version__

project = "diffkern"
author = "The diffkern developers"
copyright = "the diffkern developers"  # noqa: A001 - Sphinx reads this name
release = __version__
version = __version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
]
exclude_patterns = ["_build"]

html_theme = "furo"
html_title = f"diffkern {__version__}"

napoleon_google_docstring = False
napoleon_use_rtype = False
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
