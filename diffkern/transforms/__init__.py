"""Derivatives and maps of functions of arrays: ``grad``, ``jvp``, ``jacobian``, ``map``, indexed arrays."""
