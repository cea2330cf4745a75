"""New arrays for results, of the library that the arguments come from."""

import importlib
from typing import Any, Tuple

import numpy as np


def empty(like: Any, shape: Tuple[int, ...], dtype: str) -> Any:
    """A row-major array of ``dtype`` (NumPy's name for it) on the device of ``like``."""
    if isinstance(like, np.ndarray):
        return np.empty(shape, _numpy_extension(dtype))
    library = type(like).__module__.partition(".")[0]
    if library == "torch":
        torch = importlib.import_module("torch")
        return torch.empty(shape, dtype=getattr(torch, dtype), device=like.device)
    if hasattr(like, "__array_namespace__"):
        namespace = like.__array_namespace__()
        return namespace.empty(shape, dtype=getattr(namespace, dtype), device=like.device)
    raise TypeError(f"out is not given, and kiln cannot make an array of {library}")


def _numpy_extension(dtype: str) -> Any:
    """NumPy's dtype of a type that the package ml_dtypes adds."""
    try:
        ml_dtypes = importlib.import_module("ml_dtypes")
    except ImportError as error:
        raise TypeError(
            f"out is not given, and NumPy has no {dtype} without the package ml_dtypes: "
            "give out or out_dtype"
        ) from error
    return np.dtype(getattr(ml_dtypes, dtype))
