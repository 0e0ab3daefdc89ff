"""Wrong programs at random: right kernels of the tests, changed in ways that make most of them wrong.

Each must end in an error of :mod:`diffkern.errors` with file and line (a launch: with the kernel and its parameter), or
be a right program all the same. Anything else is a finding.
"""
