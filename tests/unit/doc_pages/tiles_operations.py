import numpy as np

import diffkern as dk

a = np.ones((40, 70), np.float32)
p = np.zeros((40, 70), np.float32)
cleanup.callback(lambda: np.testing.assert_allclose(p, 1.0 / 70.0, rtol=1e-6))
