"""Imports every module of ports, so that the table is whole."""

from . import fields, products, solvers, statistics, stencils  # noqa: F401
from .ports import PORTS

__all__ = ["PORTS"]
