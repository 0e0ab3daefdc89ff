"""The passes over syntax trees find the nodes that Python's own find, in the same order."""

import ast
import inspect

import pytest

from diffkern.frontend.statements import inline
from diffkern.frontend.syntax import fence, flow
from diffkern.frontend.syntax.static import Given
from diffkern.frontend.syntax.survey import nodes, parts_of, walk

TEXTS = [inspect.getsource(module) for module in (ast, fence, flow, inline)]
STRANGE = """
match point:
    case {"a": [x, *rest], **others} | Pair(0, y=_) if (z := x):
        global name
        from module import a as b
async def f(a, /, b=1, *c, d: "text" = 2, **e): return [*a, *(i async for i in b if i)], {**e}, f"{a!r:>{b}}"
"""


def is_context(node: ast.AST) -> bool:
    return isinstance(node, ast.expr_context)


@pytest.mark.parametrize("text", [*TEXTS, STRANGE])
def test_nodes_are_those_that_python_finds(text):
    tree = ast.parse(text)
    expected = [node for node in ast.walk(tree) if not is_context(node)]
    assert list(map(id, walk(tree))) == list(map(id, expected))
    assert sorted(map(id, nodes(tree))) == sorted(map(id, expected))
    for node in expected:
        inside = [part for part in ast.iter_child_nodes(node) if not is_context(part)]
        assert list(map(id, parts_of(node))) == list(map(id, inside))


def test_several_trees():
    first, second = ast.parse("a + b").body[0], ast.parse("c").body[0]
    assert {n.id for n in walk(first, second) if isinstance(n, ast.Name)} == {"a", "b", "c"}
    assert [n.id for n in nodes(first, second) if isinstance(n, ast.Name)] == ["a", "b", "c"]


def test_what_stands_for_a_static_expression_holds_nothing():
    assert walk(made := Given()) == [made]
