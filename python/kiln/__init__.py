"""kiln: matrix products by kernels that are made and tuned for this machine."""

from ._kiln import PackedB, matmul

__all__ = ["PackedB", "matmul"]
