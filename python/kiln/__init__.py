"""kiln: matrix products by kernels that are made and tuned for this machine.

>>> import numpy as np
>>> import kiln
>>> a = np.ones((64, 32), np.float32)
>>> b = np.full((32, 48), 2, np.float32)
>>> kiln.matmul(a, b)[0, 0]
64.0

Arrays are NumPy's, or any that have ``__dlpack__`` (PyTorch, CuPy, JAX, …) or
``__cuda_array_interface__``; none is copied. `docs/python.md` in kiln's sources has more.
"""

import atexit

from ._kiln import (
    PackedB,
    RangePart,
    RangeReport,
    TuneReport,
    matmul,
    matmul_list,
    set_log,
    set_log_level,
)
from ._kiln import close_default_engines as _close_default_engines
from ._kiln import end_callbacks as _end_callbacks
from ._kiln import version as __version__
from ._engine import Engine, explain, problem, problem_of_list, record, source, tune
from .errors import (
    BadInput,
    CompilerError,
    DatabaseError,
    DeviceError,
    Error,
    InternalError,
    NotTuned,
    Unsupported,
    VerificationError,
)

__all__ = [
    "BadInput",
    "CompilerError",
    "DatabaseError",
    "DeviceError",
    "Engine",
    "Error",
    "InternalError",
    "NotTuned",
    "PackedB",
    "RangePart",
    "RangeReport",
    "TuneReport",
    "Unsupported",
    "VerificationError",
    "__version__",
    "explain",
    "matmul",
    "matmul_list",
    "problem",
    "problem_of_list",
    "record",
    "set_log",
    "set_log_level",
    "source",
    "tune",
]

# Where doctest finds what is written in C++.
__test__ = {
    "matmul": matmul.__doc__,
    "matmul_list": matmul_list.__doc__,
    "PackedB": PackedB.__doc__,
}

# Recorded calls are written, and tuning in the background stops, while Python still runs.
# Then kiln calls nothing of Python any more; atexit calls what was registered first last.
atexit.register(_end_callbacks)
atexit.register(_close_default_engines)
atexit.register(set_log, None)
