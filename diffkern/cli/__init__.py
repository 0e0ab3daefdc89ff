"""The ``diffkern`` command."""
