"""Random programs: several launches and copies on a few arrays, and whether their results and gradients are right.

``python -m tests.support.random_programs --count 5000 --seed 1 --time-limit 2400`` writes, runs and checks programs and
prints what became of them. A program is a module of kernels (:mod:`.program`) with steps on the host (:mod:`.host`); it
is written by one module per idea: whole numbers (:mod:`.integers`), indices (:mod:`.indices`), numbers (:mod:`.scalars`),
vectors and matrices (:mod:`.composites`), structs (:mod:`.structs`), statements (:mod:`.statements`). :mod:`.reference`
and :mod:`.check` hold what it is compared with.
"""
