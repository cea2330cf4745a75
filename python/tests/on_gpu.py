"""A program: products of arrays in the memory of a GPU, with the fake HIP runtime of kiln's tests,
whose memory is the host's. Its environment names the fakes."""

import ctypes
import os

import numpy as np
from tensors import Tensor

import kiln

ROCM = 10
hip = ctypes.CDLL(os.environ["KILN_FAKE_HIP"])
hip.fake_hip_complaints.restype = ctypes.c_char_p


def on_gpu(values):
    pointer = ctypes.c_void_p()
    assert hip.hipMalloc(ctypes.byref(pointer), ctypes.c_size_t(values.nbytes)) == 0
    memory = (ctypes.c_byte * values.nbytes).from_address(pointer.value)
    array = np.frombuffer(memory, values.dtype).reshape(values.shape)
    array[...] = values
    return array


def tensor(array, device=0):
    return Tensor(array, "float32", device=(ROCM, device))


assert hip.hipInit(0) == 0
random = np.random.default_rng(1)
a = on_gpu(random.uniform(-1, 1, (20, 12)).astype(np.float32))
b = on_gpu(random.uniform(-1, 1, (12, 9)).astype(np.float32))
bias = on_gpu(np.arange(9, dtype=np.float32))
out = on_gpu(np.zeros((20, 9), np.float32))
kiln.matmul(tensor(a), tensor(b), bias=tensor(bias), activation="relu", out=tensor(out))
assert hip.hipDeviceSynchronize() == 0
np.testing.assert_allclose(out, np.maximum(a @ b + bias, 0), rtol=1e-5, atol=1e-5)

# Numbers are scalars of the host, by themselves and where the text or a function says so.
for epilogue in ("d=acc*s[]+t[]", "d=acc*s[]:host+t[]:bf16:host", lambda acc, s, t: acc * s + t):
    kiln.matmul(tensor(a), tensor(b), epilogue=epilogue, s=0.5, t=-1, out=tensor(out))
    assert hip.hipDeviceSynchronize() == 0
    np.testing.assert_allclose(out, a @ b / 2 - 1, rtol=1e-5, atol=1e-5)
line = kiln.problem(tensor(a), tensor(b), epilogue="d=acc*s[]", s=0.5)
assert line.endswith(" epilogue=d=acc*x0[]:host"), line
half = on_gpu(np.full((), 0.5, np.float32))
kiln.matmul(tensor(a), tensor(b), epilogue="d=acc*s[]", s=tensor(half), out=tensor(out))
assert hip.hipDeviceSynchronize() == 0
np.testing.assert_allclose(out, a @ b / 2, rtol=1e-5, atol=1e-5)

stream = ctypes.c_void_p()
assert hip.hipStreamCreateWithFlags(ctypes.byref(stream), 1) == 0
tensors = tensor(a), tensor(b), tensor(out)
with kiln.Engine(device="hip:0") as engine:
    engine.matmul(*tensors[:2], out=tensors[2], stream=stream.value)
    assert hip.hipDeviceSynchronize() == 0
assert [t.stream for t in tensors] == [stream.value] * 3
np.testing.assert_allclose(out, a @ b, rtol=1e-5, atol=1e-5)

for wrong, words in (
    (lambda: kiln.matmul(tensor(a), b, out=tensor(out)), "b is on cpu, a on hip:0"),
    (lambda: kiln.matmul(tensor(a), tensor(b), out=tensor(out), threads=1), "threads = 1"),
    (lambda: engine.matmul(tensor(a), tensor(b), out=tensor(out)), "engine is closed"),
    (lambda: kiln.PackedB(tensor(b)), "pack"),
):
    try:
        wrong()
    except kiln.Error as error:
        assert words in str(error), error
    else:
        raise AssertionError(words)
assert hip.fake_hip_complaints() == b"", hip.fake_hip_complaints()
print("computed")
