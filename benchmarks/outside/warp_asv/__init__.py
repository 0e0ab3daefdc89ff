"""Warp's own benchmarks.

`Warp <https://github.com/NVIDIA/warp>`_ has benchmarks for asv in the folder ``asv/benchmarks``, made for a GPU. Their
bodies run here on the CPU, once with Warp as ``warp`` and once with :mod:`diffkern.warp`: modules are read from your
checkout, ``"cuda:0"`` in their text means ``"cpu"``, and nothing else is changed. Its meshes lie in Git LFS, and
are read with ``usd-core``. Two processes, one for each library, take turns; each prepares a case by the benchmark's
own ``setup`` and then times a number of calls whenever it is asked, no more for a setup than the benchmark makes.
Times are the shortest of all turns, of processor time, which leaves out what other programs do meanwhile. Warp runs
kernels on one thread, and so does diffkern here. A number after a name counts choices of parameters. The modules were
measured in several runs, before and after changes (the data have each row's commit), on a machine in use.
"""
