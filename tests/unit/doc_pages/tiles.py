import numpy as np

import diffkern as dk

a = np.ones((40, 70), np.float32)
b = np.ones((70, 33), np.float32)
c = np.zeros((40, 33), np.float32)
rows, columns = 2, 2
cleanup.callback(lambda: np.testing.assert_array_equal(c, a @ b))
