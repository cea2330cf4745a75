"""A library of arrays that speaks DLPack and nothing else, with types that NumPy lacks."""

import ctypes

import numpy as np


class _Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class _Type(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int),
        ("dtype", _Type),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Managed(ctypes.Structure):
    pass


_Deleter = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Managed))
_Managed._fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _Deleter)]

_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]

CODES = {"float32": (2, 32), "bfloat16": (4, 16), "float8_e4m3fn": (10, 8), "int64": (0, 64)}


class Tensor:
    """The bits of ``array`` as elements of type ``dtype``. ``shape`` and ``ndim`` may be lies."""

    def __init__(self, array, dtype, *, device=(1, 0), strides=True, skipped=0, shape=None, ndim=None):
        self.array = array
        code, bits = CODES[dtype]
        assert bits == 8 * array.itemsize
        shape = array.shape if shape is None else shape
        steps = [s // array.itemsize for s in array.strides] + [1] * len(shape)
        integers = ctypes.c_int64 * len(shape)
        self._shape = integers(*shape)
        self._strides = integers(*steps[: len(shape)])
        self._managed = _Managed(
            _Tensor(
                array.ctypes.data - skipped,
                _Device(*device),
                len(shape) if ndim is None else ndim,
                _Type(code, bits, 1),
                self._shape,
                self._strides if strides else None,
                skipped,
            ),
            None,
            _Deleter(),
        )

    def __dlpack__(self, stream=None):
        self.stream = stream
        return _new_capsule(ctypes.addressof(self._managed), b"dltensor", None)


def to_bfloat16(values):
    """Bits of the nearest bfloat16, ties to even."""
    bits = np.asarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def from_bfloat16(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)
