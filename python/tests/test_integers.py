"""Products of integers with scales and zero points."""

import numpy as np
import pytest

import kiln

RANDOM = np.random.default_rng(11)
M, N, K = 6, 30, 40
A = RANDOM.integers(-128, 128, (M, K), np.int8)
B = RANDOM.integers(-128, 128, (K, N), np.int8)
SCALE_A = RANDOM.uniform(0.01, 0.1, M).astype(np.float32)
SCALE_B = RANDOM.uniform(0.01, 0.1, N).astype(np.float32)
ZERO_A = RANDOM.integers(-128, 128, M, np.int32)
SUMS_B = B.sum(axis=0, dtype=np.int32)


def values(a, b, scale_a, scale_b, zero_a=0):
    codes = a.astype(np.float64) - np.asarray(zero_a)[..., None]
    return (codes * scale_a[..., None]) @ (b * scale_b[..., None, :].astype(np.float64))


def test_scales_of_rows_and_columns():
    out = kiln.matmul(A, B, scale_a=SCALE_A, scale_b=SCALE_B, out_dtype="float32")
    np.testing.assert_allclose(out, values(A, B, SCALE_A, SCALE_B), rtol=1e-5, atol=1e-5)


def test_zero_points_of_rows():
    out = np.empty((M, N), np.float32)
    assert out is kiln.matmul(
        A, B, scale_a=SCALE_A, scale_b=SCALE_B, zero_a=ZERO_A, column_sums_b=SUMS_B, out=out
    )
    np.testing.assert_allclose(out, values(A, B, SCALE_A, SCALE_B, ZERO_A), rtol=1e-5, atol=1e-4)


def test_one_zero_point():
    a = A.view(np.uint8)
    zero = np.array(97, np.int32)
    problem = kiln.problem(
        a, B, scale_a=SCALE_A, zero_a=zero, column_sums_b=SUMS_B, out_dtype="float32"
    )
    assert problem.endswith("scale=line:none zero_a=tensor"), problem
    out = kiln.matmul(
        a, B, scale_a=SCALE_A, zero_a=zero, column_sums_b=SUMS_B, out_dtype="float32"
    )
    wanted = values(a, B, SCALE_A, np.ones(N), np.full(M, 97))
    np.testing.assert_allclose(out, wanted, rtol=1e-5, atol=1e-3)


def test_batches():
    a, b = np.stack([A, A[::-1]]), np.stack([B, -(B // 2)])
    scales, zeros = np.stack([SCALE_A, SCALE_A[::-1]]), np.stack([ZERO_A, -ZERO_A])
    columns = np.stack([SCALE_B, SCALE_B * 2])
    sums = b.sum(axis=1, dtype=np.int32)
    out = kiln.matmul(
        a, b, scale_a=scales, scale_b=columns, zero_a=zeros, column_sums_b=sums, out_dtype="float32"
    )
    np.testing.assert_allclose(out, values(a, b, scales, columns, zeros), rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize(
    "zeros, sums, match",
    [
        (ZERO_A[:-1], SUMS_B, r"zero_a.*must be contiguous int32 of shape \(\) or \(6,\)"),
        (ZERO_A.astype(np.int64), SUMS_B, "zero_a"),
        (ZERO_A, SUMS_B[None], r"column_sums_b.*must be contiguous int32 of shape \(30,\)"),
        (ZERO_A, None, "zero_a and column_sums_b: one is given without the other"),
    ],
)
def test_other_shapes_are_refused(zeros, sums, match):
    with pytest.raises((ValueError, TypeError), match=match):
        kiln.matmul(A, B, scale_a=SCALE_A, zero_a=zeros, column_sums_b=sums, out_dtype="float32")


def test_refusals():
    with pytest.raises(kiln.Unsupported, match="zero_a = line: scale_a = none"):
        kiln.matmul(A, B, zero_a=ZERO_A, column_sums_b=SUMS_B, out_dtype="float32")
    with pytest.raises(kiln.Unsupported, match="scale_a = line: a.dtype = s8 needs floats in D .*d.dtype = s32"):
        kiln.matmul(A, B, scale_a=SCALE_A)
