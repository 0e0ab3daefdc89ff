"""Random programs: several launches and copies on a few arrays, and whether their results and gradients are right.

``python -m tests.support.random_programs --count 5000 --seed 1 --time-limit 2400`` writes, runs and checks programs and
prints what became of them. A program is a module of kernels (:mod:`.program`) with steps on the host (:mod:`.host`).
One module per idea writes it: whole numbers (:mod:`.integers`), indices (:mod:`.indices`), numbers (:mod:`.scalars`),
vectors and matrices (:mod:`.composites`), structs (:mod:`.structs`), statements (:mod:`.statements`). What it is
compared with stands in :mod:`.reference` and :mod:`.check`.
"""
