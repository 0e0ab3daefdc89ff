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
    "gallery",
    "mathml",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
]
exclude_patterns = ["_build"]
html_math_renderer = "mathml"
copybutton_prompt_text = "$ "

html_theme = "furo"
html_title = f"diffkern {__version__}"

napoleon_google_docstring = False
napoleon_use_rtype = False
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
