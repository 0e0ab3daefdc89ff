"""Formulas as MathML, which browsers show without a script: the pages are complete offline.

docutils translates the notation of TeX; a formula that it does not know is a warning, and so an error in our builds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

if TYPE_CHECKING:
    from sphinx.application import Sphinx

logger = logging.getLogger(__name__)


def _add(translator: Any, node: nodes.math | nodes.math_block, as_block: bool) -> None:
    try:
        translator.body.append(tex2mathml(node.astext(), as_block=as_block))
    except MathError as error:
        logger.warning("formula %r: %s", node.astext(), error, location=node)
    raise nodes.SkipNode


def visit_math(translator: Any, node: nodes.math) -> None:
    _add(translator, node, as_block=False)


def visit_math_block(translator: Any, node: nodes.math_block) -> None:
    _add(translator, node, as_block=True)


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_math_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
