import numpy as np

import diffkern as dk
from diffkern.testing import find_races


@dk.kernel
def smooth(x: dk.array(dtype=float)):
    i = dk.tid()
    if i > 0:
        x[i] = 0.5 * (x[i] + x[i - 1])


if __name__ == "__main__":
    (race,) = find_races(smooth, dim=8, inputs=[np.ones(8, np.float32)])
    print(f"x[{race.index[0]}], and {race.elements - 1} more elements:")
    for side in (race.first, race.second):
        print(f"thread {side.thread[0]} {side.does} {side.array} in line {side.loc.line}")
        print(side.loc.excerpt())
