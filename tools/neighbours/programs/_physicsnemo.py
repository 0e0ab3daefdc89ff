"""What the programs of PhysicsNeMo have in common: functions of one kind, each on inputs that the package makes."""

import importlib
import pkgutil

import torch
from physicsnemo.core.function_spec import FunctionSpec

__all__ = ["Functions"]

_FUNCTIONAL = "physicsnemo.nn.functional"


class Functions:
    """All functions below a folder of ``physicsnemo.nn.functional`` that have an implementation by Warp.

    Each is called with the smallest inputs that it has for that, and differentiated by PyTorch where it has inputs for
    that. The numbers of both are the outputs.

    Parameters
    ----------
    folder : str
        The folder.
    without : sequence of str
        Functions that are left out.
    uncompared : sequence of str
        Outputs that are left out.
    """

    def __init__(self, folder, without=(), uncompared=()):
        module = importlib.import_module(f"{_FUNCTIONAL}.{folder}")
        for found in pkgutil.walk_packages(module.__path__, f"{module.__name__}."):
            importlib.import_module(found.name)
        specs = {spec.__name__: spec for spec in _below(FunctionSpec) if spec.__module__.startswith(module.__name__)}
        self.specs = {name: specs[name] for name in sorted(specs) if _has(specs[name]) and name not in without}
        self.uncompared = uncompared

    def step(self):
        self.found = {}
        for name, spec in self.specs.items():
            for _, arguments, named in _first(spec.make_inputs_forward):
                self.found |= _tensors(f"{name}.", spec.dispatch(*arguments, **named, implementation="warp"))
            for _, arguments, named in _first(spec.make_inputs_backward):
                self.found |= _gradients(spec, name, arguments, named)

    def outputs(self):
        return {name: value.detach().numpy() for name, value in self.found.items() if name not in self.uncompared}


def _below(cls):
    for one in cls.__subclasses__():
        yield one
        yield from _below(one)


def _has(spec):
    return "warp" in spec.implementations()


def _first(make):
    """Return the smallest inputs, with the same random numbers at every call."""
    torch.manual_seed(7)
    return list(make(device="cpu"))[:1]


def _gradients(spec, name, arguments, named):
    given = {f"{k}": value for k, value in enumerate(arguments)} | named
    wanted = {key: value for key, value in given.items() if isinstance(value, torch.Tensor) and value.requires_grad}
    told = _tensors("", spec.dispatch(*arguments, **named, implementation="warp"))
    told = [value for value in told.values() if value.requires_grad]
    random = torch.Generator().manual_seed(11)
    loss = sum((value * torch.rand(value.shape, generator=random, dtype=value.dtype)).sum() for value in told)
    found = torch.autograd.grad(loss, list(wanted.values()), allow_unused=True)
    return {f"{name}.d{key}": value for key, value in zip(wanted, found, strict=True) if value is not None}


def _tensors(name, value):
    """Return the tensors in a result by name."""
    if isinstance(value, torch.Tensor):
        return {name.rstrip("."): value}
    if isinstance(value, dict):
        pairs = value.items()
    elif isinstance(value, (tuple, list)):
        pairs = enumerate(value)
    else:
        pairs = getattr(value, "__dict__", {}).items()
    found = {}
    for key, one in pairs:
        found |= _tensors(f"{name}{key}.", one)
    return found
