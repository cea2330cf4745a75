"""Types, layouts, batches and sizes against NumPy's products in float64."""

import gc

import numpy as np
import pytest

import kiln

# Of sum |a||b|: rounding of the accumulator, and of the result.
TOLERANCE = {np.float16: 2e-3, np.float32: 1e-6, np.float64: 1e-14}
FLOATS = list(TOLERANCE)


def random(shape, dtype, seed=1):
    generator = np.random.default_rng(seed)
    if np.issubdtype(dtype, np.integer):
        info = np.iinfo(dtype)
        return generator.integers(info.min, info.max, shape, dtype, endpoint=True)
    return generator.uniform(-1, 1, shape).astype(dtype)


def check(result, a, b):
    dtype = result.dtype.type
    a, b = a.astype(np.float64), b.astype(np.float64)
    limit = TOLERANCE.get(dtype, 0) * (np.abs(a) @ np.abs(b)) + (1e-30 if dtype in FLOATS else 0)
    assert result.shape == (a @ b).shape
    assert (np.abs(result - a @ b) <= limit).all()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("m, n, k", [(1, 1, 1), (3, 5, 7), (33, 17, 65), (128, 96, 200)])
def test_floats(dtype, m, n, k):
    a, b = random((m, k), dtype), random((k, n), dtype, 2)
    result = kiln.matmul(a, b)
    assert result.dtype == dtype and result.flags.c_contiguous
    check(result, a, b)


@pytest.mark.parametrize("left, right", [("i1", "i1"), ("u1", "i1"), ("i1", "u1")])
def test_integers(left, right):
    a, b = random((31, 70), np.dtype(left)), random((70, 18), np.dtype(right), 2)
    result = kiln.matmul(a, b)
    assert result.dtype == np.int32
    check(result, a, b)


@pytest.mark.parametrize("dtype", [np.float32, "float32", "fp32", np.dtype("f4"), ">i4"])
def test_out_dtype(dtype):
    a, b = random((8, 16), np.float16), random((16, 8), np.float16)
    if dtype == ">i4":
        with pytest.raises(TypeError, match="out_dtype"):
            kiln.matmul(a, b, out_dtype=dtype)
        return
    result = kiln.matmul(a, b, out_dtype=dtype)
    assert result.dtype == np.float32
    check(result, a, b)


@pytest.mark.parametrize("a_order", "CF")
@pytest.mark.parametrize("b_order", "CF")
@pytest.mark.parametrize("out_order", "CF")
def test_orders(a_order, b_order, out_order):
    a = np.asarray(random((19, 23), np.float32), order=a_order)
    b = np.asarray(random((23, 11), np.float32, 2), order=b_order)
    out = np.empty((19, 11), np.float32, order=out_order)
    assert kiln.matmul(a, b, out=out) is out
    check(out, a, b)


def test_leading_dimensions():
    big_a, big_b = random((40, 64), np.float32), random((64, 50), np.float32, 2)
    around = np.full((30, 40), 7, np.float32)
    a, b, out = big_a[5:25, 8:40], big_b[3:35, 10:43], around[4:24, 3:36]
    kiln.matmul(a, b, out=out)
    check(out, a, b)
    outside = np.ones_like(around, bool)
    outside[4:24, 3:36] = False
    assert (around[outside] == 7).all()


def test_transposed_parts():
    big_a, big_b = random((64, 40), np.float32), random((50, 64), np.float32, 2)
    a, b = big_a[8:40, 5:25].T, big_b[10:43, 3:35].T
    check(kiln.matmul(a, b), a, b)


@pytest.mark.parametrize("axes", [(0, 1, 2), (1, 0, 2), (0, 2, 1)])
def test_batches(axes):
    """Batches behind one another, interleaved by rows, and of transposed matrices."""
    back = np.argsort(axes)
    a = np.ascontiguousarray(random((4, 9, 13), np.float32).transpose(axes)).transpose(back)
    b = np.ascontiguousarray(random((4, 13, 6), np.float32, 2).transpose(axes)).transpose(back)
    out = np.empty([(4, 9, 6)[i] for i in axes], np.float32).transpose(back)
    check(kiln.matmul(a, b), a, b)
    kiln.matmul(a, b, out=out)
    check(out, a, b)


def test_batch_with_one_b():
    a, b = random((4, 9, 13), np.float32), random((13, 6), np.float32, 2)
    check(kiln.matmul(a, b), a, b)
    check(kiln.matmul(a, np.broadcast_to(b, (4, 13, 6))), a, b)
    check(kiln.matmul(a, b[None]), a, b)
    check(kiln.matmul(a[:, :1], b), a[:, :1], b)
    assert kiln.problem(a, b) == "fp32 N N 36 6 13"


def test_batch_of_one():
    a, b = random((1, 9, 13), np.float32), random((13, 6), np.float32, 2)
    assert kiln.matmul(a, b).shape == (1, 9, 6)
    assert kiln.matmul(a[0], b[None]).shape == (1, 9, 6)


@pytest.mark.parametrize("m, n, k", [(0, 5, 3), (4, 0, 3), (4, 5, 0), (0, 0, 0)])
def test_empty(m, n, k):
    result = kiln.matmul(np.ones((m, k), np.float32), np.ones((k, n), np.float32))
    np.testing.assert_array_equal(result, np.zeros((m, n), np.float32))


def test_no_batches():
    a, b = np.ones((0, 2, 3), np.float32), np.ones((0, 3, 4), np.float32)
    assert kiln.matmul(a, b).shape == (0, 2, 4)
    assert kiln.matmul(a, b[:, :, :0]).shape == (0, 2, 0)
    assert kiln.matmul(a, np.ones((3, 4), np.float32)).shape == (0, 2, 4)


def test_strides_of_single_rows_and_columns_do_not_matter():
    a, b = random((8, 30), np.float32), random((30, 8), np.float32, 2)
    check(kiln.matmul(a[::2][:1], b), a[:1], b)
    check(kiln.matmul(a[:, ::7][:, :1], b[:1]), a[:, :1], b[:1])
    check(kiln.matmul(a, b[:, ::3][:, :1]), a, b[:, :1])
    check(kiln.matmul(a[:1, ::3], b[:10]), a[:1, ::3], b[:10])


def test_subclasses_and_memory_maps(tmp_path):
    stored = np.memmap(tmp_path / "a", np.float32, "w+", shape=(6, 5))
    stored[:] = random((6, 5), np.float32)
    b = random((5, 4), np.float32, 2)
    check(np.asarray(kiln.matmul(stored, b)), np.asarray(stored), b)


@pytest.mark.parametrize("threads", [1, 2])
def test_threads(threads):
    import os

    if threads > len(os.sched_getaffinity(0)):
        pytest.skip("one core")
    a, b = random((150, 90), np.float32), random((90, 70), np.float32, 2)
    first = kiln.matmul(a, b, threads=threads)
    check(first, a, b)
    np.testing.assert_array_equal(first, kiln.matmul(a, b, threads=threads))


def test_nothing_is_leaked():
    import sys

    a, b = random((4, 4), np.float32), random((4, 4), np.float32)
    out = np.empty_like(a)
    for _ in range(3):  # the first calls keep a kernel
        kiln.matmul(a, b, out=out)
        kiln.matmul(a, b)
    gc.collect()
    before = [sys.getrefcount(x) for x in (a, b, out, None, out.dtype)]
    for _ in range(100):
        kiln.matmul(a, b, out=out)
        kiln.matmul(a, b, bias=None, activation="relu")
        with pytest.raises(ValueError):
            kiln.matmul(a, b[:3], out=out)
    gc.collect()
    after = [sys.getrefcount(x) for x in (a, b, out, None, out.dtype)]
    assert all(abs(x - y) < 50 for x, y in zip(before, after)), (before, after)


def test_alpha_of_zero_is_a_factor_like_any_other():
    """BLAS would not read a and b; beta = 0 does not read c."""
    a, b = np.ones((5, 6), np.float32), np.ones((6, 7), np.float32)
    c = np.full((5, 7), 3, np.float32)
    np.testing.assert_array_equal(kiln.matmul(a, b, alpha=0, beta=2, c=c), 2 * c)
    a[2, 3] = np.nan
    out = kiln.matmul(a, b, alpha=0, beta=2, c=c)
    assert np.isnan(out[2]).all() and (np.delete(out, 2, 0) == 6).all()
    c[:] = np.nan
    a[2, 3] = 1
    np.testing.assert_array_equal(kiln.matmul(a, b, beta=0, c=c), np.full((5, 7), 6, np.float32))
    empty = kiln.matmul(a[:, :0], b[:0], beta=2, c=np.full((5, 7), 3, np.float32))
    np.testing.assert_array_equal(empty, np.full((5, 7), 6, np.float32))
