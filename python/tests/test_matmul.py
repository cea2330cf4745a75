import numpy as np

import kiln


def test_fp32():
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    b = np.ones((4, 5), np.float32)
    np.testing.assert_array_equal(kiln.matmul(a, b), a @ b)
