"""GradBench.

`GradBench <https://github.com/gradbench/gradbench>`_ compares tools for automatic differentiation: twelve evals send
inputs to a tool as JSON, ask for values and derivatives, and compare the answers with an implementation of theirs.
``python -m benchmarks.outside.gradbench.tool`` is such a tool, with kernels for all twelve; four of them are those of
:doc:`adbench`. The evals and the other tools run as they stand in your checkout, without containers, each with one
thread, one tool after the other for each eval. A row is what an eval asked at one size, ``validated`` by the eval
itself. Times are the shortest that a tool reported of a call, since the machine was shared and tools cannot be
interleaved.

The evals need ``pydantic``, ``dataclasses-json`` and SciPy; most compare with ``tools/manual``, which has to be built
(``make -C cpp && make -C tools/manual``). Derivatives of ``manual`` are written by hand in C++, some in closed form:
its times, of this machine, stand in a column of their own. ``finite`` is a program in C++ with finite differences, the
only other tool for ``saddle`` and ``particle``. So do
JAX's: its tool there returns before a result is computed, and what it times is the call alone. The mixture and the hand
are not validated: GradBench has corrected ADBench's mixture in three places, and poses its hand in another way than the
kernels here.
"""
