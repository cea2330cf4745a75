"""Results that are codes with scales."""

import numpy as np
import pytest
from tensors import Tensor

import kiln

RANDOM = np.random.default_rng(5)
M, N, K = 6, 300, 40
A = RANDOM.uniform(-1, 1, (M, K)).astype(np.float32)
B = RANDOM.uniform(-1, 1, (K, N)).astype(np.float32)


def values(codes, scales, along):
    return codes.astype(np.float32) * np.repeat(scales, along, axis=-1)[..., : codes.shape[-1]]


@pytest.mark.parametrize("along, blocks", [(128, 3), (N, 1)])
def test_scales_that_are_written(along, blocks):
    out = np.empty((M, N), np.int8)
    scales = np.empty((M, blocks) if blocks > 1 else (M,), np.float32)
    assert kiln.matmul(A, B, out=out, scale_d=scales) is out
    scales = scales.reshape(M, blocks)
    exact = A @ B
    for block in range(blocks):
        largest = np.abs(exact[:, block * along : (block + 1) * along]).max(axis=1)
        np.testing.assert_allclose(scales[:, block], largest / 127, rtol=1e-5)
    error = np.abs(values(out, scales, along) - exact)
    assert (error <= 0.51 * np.repeat(scales, along, axis=1)[:, :N]).all()


def test_a_scale_that_is_read():
    scale = np.array(0.25, np.float32)
    out = np.empty((M, N), np.int8)
    kiln.matmul(A, B, out=out, scale_d=scale)
    assert scale == 0.25
    assert np.abs(out * 0.25 - A @ B).max() < 0.13


def test_batches():
    a = RANDOM.uniform(-1, 1, (2, M, K)).astype(np.float32)
    for b in B, np.stack([B, -B]):
        out = np.empty((2, M, N), np.int8)
        scales = np.empty((2, M, 3), np.float32)
        kiln.matmul(a, b, out=out, scale_d=scales)
        assert np.abs(values(out, scales, 128) - a @ b).max() <= 0.51 * scales.max()


@pytest.mark.parametrize("shape, dtype", [((M, 2), "f4"), ((M - 1,), "f4"), ((M, 3), "f8")])
def test_other_scales_are_refused(shape, dtype):
    out = np.empty((M, N), np.int8)
    with pytest.raises(ValueError, match=r"scale_d.*must be float32 of shape \(\), \(6,\) or \(6, 3\)"):
        kiln.matmul(A, B, out=out, scale_d=np.empty(shape, dtype))


def from_e4m3(codes):
    exponents, mantissas = (codes >> 3 & 15).astype(int), (codes & 7).astype(float)
    normal = np.ldexp(8 + mantissas, exponents - 10)
    magnitudes = np.where(exponents == 0, np.ldexp(mantissas, -9), normal)
    return np.where(codes >= 128, -magnitudes, magnitudes)


def test_expressions_store_codes():
    exact = A.astype(float) @ B
    text = "s[m]=max(abs(acc))/{};d=acc/s[m]"
    whole = np.empty((M, N), np.int8)
    scales = kiln.matmul(A, B, epilogue=text.format(127), out=whole)["s"]
    np.testing.assert_allclose(scales, np.abs(exact).max(1) / 127, rtol=1e-5)
    assert (np.abs(whole * scales[:, None] - exact) <= 0.51 * scales[:, None]).all()
    codes = np.empty((M, N), np.uint8)
    scales = kiln.matmul(A, B, epilogue=text.format(448), out=Tensor(codes, "float8_e4m3fn"))["s"]
    np.testing.assert_allclose(from_e4m3(codes), exact / scales[:, None], rtol=2**-4, atol=2**-10)
    kiln.matmul(A, B, epilogue="d=acc*1000", out=Tensor(codes, "float8_e4m3fn"))
    assert (from_e4m3(codes)[np.abs(exact) > 0.5] == 448 * np.sign(exact[np.abs(exact) > 0.5])).all()


def test_refusals():
    scales = np.empty((M, 3), np.float32)
    with pytest.raises(kiln.Unsupported, match="d.dtype = fp32: scale_d = 1x128"):
        kiln.matmul(A, B, scale_d=scales)
    scales.flags.writeable = False
    with pytest.raises(ValueError, match="scale_d is read-only"):
        kiln.matmul(A, B, out=np.empty((M, N), np.int8), scale_d=scales)
