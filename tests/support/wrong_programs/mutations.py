"""Changes of a kernel's tree that make it wrong, mostly.

In: a source of choices and a tree. Out: :func:`mutate` has changed the tree, and says how.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import diffkern as dk

from . import fragments

__all__ = ["mutate"]

Mutation = Callable[["Place"], bool]
MUTATIONS: list[Mutation] = []
N = TypeVar("N", bound=ast.AST)


def mutation(function: Mutation) -> Mutation:
    """Enter a mutation; it returns whether there was something to change."""
    MUTATIONS.append(function)
    return function


class Place:
    """A function that is changed, and the choices.

    Attributes
    ----------
    tree
        The function.
    names
        Names of its variables and parameters.
    """

    def __init__(self, tree: ast.FunctionDef, rng: random.Random) -> None:
        self.tree, self.rng = tree, rng
        stored = [n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
        self.names = sorted({*(a.arg for a in tree.args.args), *stored}) or ["x"]

    def nodes(self, *kinds: type[N]) -> list[N]:
        """The nodes of some kinds in its body."""
        return [n for stmt in self.tree.body for n in ast.walk(stmt) if isinstance(n, kinds)]

    def one(self, *kinds: type[N]) -> N | None:
        """One of them."""
        found = self.nodes(*kinds)
        return self.rng.choice(found) if found else None

    def blocks(self) -> list[list[ast.stmt]]:
        """The lists of statements in it."""
        found = [self.tree.body]
        for node in self.nodes(ast.stmt):
            found += [b for name in ("body", "orelse") if (b := getattr(node, name, None)) and isinstance(b, list)]
        return found

    def filled(self, text: str) -> str:
        """A fragment with names of the function."""
        return text.replace("\\n", "\n").format(a=self.rng.choice(self.names), b=self.rng.choice(self.names))

    def expression(self) -> ast.expr:
        """Some expression."""
        return ast.parse(self.filled(self.rng.choice(fragments.EXPRESSIONS)), mode="eval").body

    def replace(self, old: ast.AST, new: ast.AST) -> bool:
        """Put a node in another one's place."""
        for parent in ast.walk(self.tree):
            for name, value in ast.iter_fields(parent):
                if value is old:
                    setattr(parent, name, new)
                    return True
                if isinstance(value, list):
                    for k, item in enumerate(value):
                        if item is old:
                            value[k] = new
                            return True
        return False

    def loads(self) -> list[ast.expr]:
        """The expressions in it that are read."""
        return [n for n in self.nodes(ast.expr) if isinstance(getattr(n, "ctx", ast.Load()), ast.Load)]


@mutation
def another_name(p: Place) -> bool:
    """Read an unknown name, or another one."""
    node = p.one(ast.Name)
    if node is None:
        return False
    node.id = p.rng.choice([*p.names, "undefined_name", "dk", "float", "self", "None_", node.id + "_", "math"])
    return True


@mutation
def another_expression(p: Place) -> bool:
    """Put an expression in another one's place."""
    found = p.loads()
    return bool(found) and p.replace(p.rng.choice(found), p.expression())


@mutation
def assigned_expression(p: Place) -> bool:
    """Assign an expression to a name."""
    block = p.rng.choice(p.blocks())
    target = ast.parse(p.filled(p.rng.choice(fragments.TARGETS)) + " = 0").body[0]
    assert isinstance(target, ast.Assign)
    target.value = p.rng.choice(p.loads()) if p.rng.random() < 0.5 and p.loads() else p.expression()
    block.insert(p.rng.randint(0, len(block)), target)
    return True


@mutation
def another_target(p: Place) -> bool:
    """Assign to something else."""
    node = p.one(ast.Assign)
    if node is None:
        return False
    target = ast.parse(p.filled(p.rng.choice(fragments.TARGETS)) + " = 0").body[0]
    assert isinstance(target, ast.Assign)
    node.targets = target.targets
    return True


@mutation
def new_statement(p: Place) -> bool:
    """Put a statement somewhere."""
    block = p.rng.choice(p.blocks())
    block[(k := p.rng.randint(0, len(block))) : k] = ast.parse(p.filled(p.rng.choice(fragments.STATEMENTS))).body
    return True


@mutation
def dropped_statement(p: Place) -> bool:
    """Leave a statement out, or put it elsewhere, or twice."""
    block = p.rng.choice(p.blocks())
    k = p.rng.randrange(len(block))
    taken = block[k]
    how = p.rng.randrange(3)
    if how < 2:
        block[k : k + 1] = [ast.Pass()] if len(block) == 1 else []
    if how > 0:
        other = p.rng.choice(p.blocks())
        if any(other is b for b in _inner_blocks(taken)):
            return False
        other.insert(p.rng.randint(0, len(other)), taken)
    return True


def _inner_blocks(stmt: ast.stmt) -> list[Any]:
    return [value for node in ast.walk(stmt) for _, value in ast.iter_fields(node) if isinstance(value, list)]


@mutation
def in_a_branch(p: Place) -> bool:
    """Execute a statement only sometimes."""
    block = p.rng.choice(p.blocks())
    k = p.rng.randrange(len(block))
    name = p.rng.choice(p.names)
    heads = (f"if {name} > 0:", f"while {name} < 3:", "for _ in range(2):", f"for k in range(int({name})):", "if True:")
    (made,) = ast.parse(f"{p.rng.choice(heads)} pass").body
    made.body = [block[k]]  # type: ignore[attr-defined]
    block[k] = made
    return True


@mutation
def arguments_of_a_call(p: Place) -> bool:
    """Leave out, add, exchange, name or repeat arguments."""
    node = p.one(ast.Call)
    if node is None:
        return False
    args, how = node.args, p.rng.randrange(7)
    if how == 0 and args:
        del args[p.rng.randrange(len(args))]
    elif how == 1:
        args.insert(p.rng.randint(0, len(args)), p.expression())
    elif how == 2 and len(args) > 1:
        p.rng.shuffle(args)
    elif how == 3 and args:
        node.keywords.append(ast.keyword(p.rng.choice(["x", "dtype", "shape", "a", "self"]), args.pop()))
    elif how == 4 and node.keywords:
        chosen = p.rng.choice(node.keywords)
        chosen.arg = p.rng.choice(["shapes", "dtypes", "x", None])
    elif how == 5 and args:
        args[p.rng.randrange(len(args))] = ast.Starred(p.expression(), ast.Load())
    elif args:
        args[p.rng.randrange(len(args))] = p.expression()
    else:
        return False
    return True


@mutation
def another_function(p: Place) -> bool:
    """Call something else."""
    node = p.one(ast.Call)
    if node is None:
        return False
    language = [name for name in dk.__all__ if not name.startswith("_")]
    text = p.rng.choice(fragments.FOREIGN) if p.rng.random() < 0.4 else "dk." + p.rng.choice(language)
    node.func = ast.parse(text, mode="eval").body
    return True


@mutation
def another_attribute(p: Place) -> bool:
    """Ask for another attribute, or for one of a name that has none."""
    node = p.one(ast.Attribute) if p.rng.random() < 0.6 else None
    names = ["foo", "x", "w", "xy", "shape", "T", "grad", "size", "dtype", "__class__", "sin", "vec3", "ndim", "data"]
    if node is not None:
        node.attr = p.rng.choice(names)
        return True
    found = [n for n in p.nodes(ast.Name) if isinstance(n.ctx, ast.Load)]
    if not found:
        return False
    chosen = p.rng.choice(found)
    return p.replace(chosen, ast.Attribute(ast.Name(chosen.id, ast.Load()), p.rng.choice(names), ast.Load()))


@mutation
def another_index(p: Place) -> bool:
    """Index by more, by fewer, or by something else."""
    node = p.one(ast.Subscript)
    if node is None:
        return False
    items = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
    how = p.rng.randrange(4)
    if how == 0:
        items.append(p.expression())
    elif how == 1 and len(items) > 1:
        items.pop()
    elif how == 2:
        return p.replace(node, node.value)
    else:
        items[p.rng.randrange(len(items))] = p.expression()
    node.slice = items[0] if len(items) == 1 else ast.Tuple(items, ast.Load())
    return True


@mutation
def another_operator(p: Place) -> bool:
    """Compute or compare by another operator."""
    node: Any = p.one(ast.BinOp, ast.AugAssign, ast.Compare, ast.UnaryOp)
    binary = [ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.LShift, ast.RShift, ast.BitOr]
    binary += [ast.BitXor, ast.BitAnd, ast.MatMult]
    if isinstance(node, ast.Compare):
        node.ops[0] = p.rng.choice([ast.In, ast.NotIn, ast.Is, ast.IsNot, ast.Eq, ast.Lt])()
    elif isinstance(node, ast.UnaryOp):
        node.op = p.rng.choice([ast.Not, ast.Invert, ast.USub, ast.UAdd])()
    elif node is not None:
        node.op = p.rng.choice(binary)()
    return node is not None


@mutation
def another_constant(p: Place) -> bool:
    """Put another constant in a constant's place."""
    node = p.one(ast.Constant)
    if node is None:
        return False
    node.value = p.rng.choice([0, -1, 1 << 40, 1 << 70, 0.0, 1e40, 1e400, "x", b"x", None, True, ..., 2j, 7, 0.5])
    return True


@mutation
def another_annotation(p: Place) -> bool:
    """Annotate a parameter otherwise, or not."""
    args = p.tree.args.args
    if not args:
        return False
    text = p.rng.choice([*fragments.ANNOTATIONS, ""])
    p.rng.choice(args).annotation = ast.parse(text, mode="eval").body if text else None
    return True


@mutation
def another_header(p: Place) -> bool:
    """Take more, fewer or other parameters, or say that something is returned."""
    how, args = p.rng.randrange(4), p.tree.args
    if how == 0 and args.args:
        del args.args[p.rng.randrange(len(args.args))]
    elif how == 1 and len(args.args) > 1:
        p.rng.shuffle(args.args)
    elif how == 2:
        p.tree.returns = ast.parse(p.rng.choice(fragments.ANNOTATIONS), mode="eval").body
    else:
        text = ast.unparse(args)
        added = p.rng.choice(fragments.HEADERS)
        both = [text, added] if p.rng.random() < 0.7 else [added, text]
        (made,) = ast.parse(f"def f({', '.join(part for part in both if part)}): pass").body
        p.tree.args = made.args  # type: ignore[attr-defined]
    return True


@mutation
def another_decorator(p: Place) -> bool:
    """Decorate with something else."""
    p.tree.decorator_list = [ast.parse(p.rng.choice(fragments.DECORATORS), mode="eval").body]
    if p.rng.random() < 0.2:
        p.tree.decorator_list.append(ast.parse("dk.kernel", mode="eval").body)
    return True


@mutation
def another_return(p: Place) -> bool:
    """Return something else, or nothing, or on one way only."""
    node = p.one(ast.Return)
    if node is None:
        p.tree.body.append(ast.Return(p.expression()))
        return True
    how = p.rng.randrange(3)
    if how == 0:
        node.value = None
    elif how == 1:
        node.value = ast.Tuple([node.value or p.expression(), p.expression()], ast.Load())
    else:
        made = ast.parse(f"if {p.rng.choice(p.names)} > 0: pass").body[0]
        made.body = [ast.Return(node.value)]  # type: ignore[attr-defined]
        return p.replace(node, made)
    return True


@mutation
def recursion(p: Place) -> bool:
    """Call the function itself."""
    found = p.loads()
    args: Sequence[ast.expr] = [ast.Name(a.arg, ast.Load()) for a in p.tree.args.args]
    call = ast.Call(ast.Name(p.tree.name, ast.Load()), list(args), [])
    if found and p.rng.random() < 0.5:
        return p.replace(p.rng.choice(found), call)
    p.tree.body.insert(p.rng.randint(0, len(p.tree.body)), ast.Expr(call))
    return True


def mutate(module: ast.Module, rng: random.Random) -> str:
    """Change one function of a module, once or twice, and return how."""
    functions = [node for node in module.body if isinstance(node, ast.FunctionDef)]
    done: list[str] = []
    times = 2 if rng.random() < 0.15 else 1
    for _ in range(200):
        change = rng.choice(MUTATIONS)
        tree = functions[-1] if rng.random() < 0.6 else rng.choice(functions)
        if change(Place(tree, rng)):
            done.append(change.__name__)
        if len(done) == times:
            break
    ast.fix_missing_locations(module)
    return " and ".join(done)
