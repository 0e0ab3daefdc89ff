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
only other tool for ``saddle`` and ``particle``.

The tool for JAX there times calls and does not wait for their results, which JAX computes on another thread: in a check
outside GradBench a call returned after 0.06 ms and its result was there after 3.6 ms. Its modules run as they stand, by
``python -m benchmarks.outside.gradbench.jax_tool``, which adds ``jax.block_until_ready`` to each function that the tool
times several times (all but those of ``hello``). ``jax_cpu_enable_async_dispatch = False`` is not enough in JAX 0.10:
calls still return early. The tool binds itself to one processor. The eval ``gmm`` has corrected ADBench's mixture: here
the logarithm of the prior is added, where ``adbench`` subtracts it.

Sizes are some of the evals' own. Left out for their time are, among others, ``lse`` above 40000 and ``llsq`` above 2048
numbers, ``ode`` above 10000 numbers or with 1 or 100 steps, ``det`` above 7, ``kmeans`` with 1000 centres, 10000
points or 16 dimensions, ``gmm`` above 10 dimensions or 25 components, and all inputs but one of ``lstm``, ``ba`` and
``ht``. Rows of ``gmm``, ``ht`` and ``lse`` and the times of JAX were measured tool by tool after the others, on the
same machine and day.
"""
