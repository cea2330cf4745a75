"""Arrays of other libraries: DLPack, and types that NumPy lacks."""

import importlib.util

import numpy as np
import pytest
from tensors import Tensor, from_bfloat16, to_bfloat16

import kiln


def random(shape, seed=1):
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)


@pytest.mark.parametrize("keywords", [{}, {"strides": False}, {"skipped": 64}])
def test_float32(keywords):
    a, b, out = random((6, 10)), random((10, 7), 2), np.empty((6, 7), np.float32)
    kiln.matmul(Tensor(a, "float32", **keywords), b, out=out)
    np.testing.assert_allclose(out, a @ b, rtol=1e-5, atol=1e-6)


def test_transposed():
    a, w = random((6, 10)), random((7, 10), 2)
    result = kiln.matmul(a, Tensor(w.T, "float32"))
    np.testing.assert_allclose(result, a @ w.T, rtol=1e-5, atol=1e-6)


def test_bfloat16():
    a, b = to_bfloat16(random((9, 40))), to_bfloat16(random((40, 12), 2))
    exact = from_bfloat16(a).astype(float) @ from_bfloat16(b)
    wide = np.empty((9, 12), np.float32)
    kiln.matmul(Tensor(a, "bfloat16"), Tensor(b, "bfloat16"), out=wide)
    np.testing.assert_allclose(wide, exact, rtol=1e-5, atol=1e-5)
    narrow = np.empty((9, 12), np.uint16)
    kiln.matmul(Tensor(a, "bfloat16"), Tensor(b, "bfloat16"), out=Tensor(narrow, "bfloat16"))
    np.testing.assert_allclose(from_bfloat16(narrow), exact, rtol=2**-7, atol=1e-5)


def test_float8_with_scales():
    """0x38 is 1 in e4m3, 0x40 is 2."""
    a, b = np.full((4, 256), 0x38, np.uint8), np.full((256, 3), 0x40, np.uint8)
    out = np.empty((4, 3), np.float32)
    operands = Tensor(a, "float8_e4m3fn"), Tensor(b, "float8_e4m3fn")
    lines = np.arange(1, 5, dtype=np.float32), np.arange(1, 4, dtype=np.float32)
    expected = 512 * np.outer(*lines)
    kiln.matmul(*operands, out=out, scale_a=lines[0], scale_b=lines[1])
    np.testing.assert_array_equal(out, expected)
    kiln.matmul(*operands, out=out, scale_a=np.array(3, np.float32), scale_b=lines[1])
    np.testing.assert_array_equal(out, 1536 * np.outer(np.ones(4), lines[1]))
    kiln.matmul(*operands, out=out, scale_a=lines[0], scale_b=lines[1], numerics="fast")
    np.testing.assert_array_equal(out, expected)
    blocks = [np.repeat(x[:, None], 2, 1) for x in lines]
    kiln.matmul(*operands, out=out, scale_a=blocks[0], scale_b=blocks[1])
    np.testing.assert_array_equal(out, expected)
    kiln.matmul(*operands, out=out, scale_a=blocks[0], scale_b=np.ones((1, 2), np.float32))
    np.testing.assert_array_equal(out, 512 * lines[0][:, None] + np.zeros(3))
    # Powers of two: 127 is 1, 128 is 2.
    mx = np.full((4, 8), 128, np.uint8), np.full((3, 8), 127, np.uint8)
    kiln.matmul(*operands, out=out, scale_a=mx[0], scale_b=mx[1])
    np.testing.assert_array_equal(out, np.full((4, 3), 1024))
    with pytest.raises(ValueError, match=r"scale_a = float32 array of shape \(5,\)"):
        kiln.matmul(*operands, out=out, scale_a=np.ones(5, np.float32))


def test_strides_say_the_order_of_scales():
    """Of 128 elements of a line, adjacent lines: tight or with a pitch of whole fours."""
    a, b = np.full((2, 5, 256), 0x38, np.uint8), np.full((2, 256, 3), 0x38, np.uint8)
    operands = Tensor(a, "float8_e4m3fn"), Tensor(b, "float8_e4m3fn")
    out = np.empty((2, 5, 3), np.float32)
    scales = np.arange(20, dtype=np.float32).reshape(2, 5, 2), np.ones((2, 3, 2), np.float32)
    expected = np.repeat(128 * scales[0].sum(2)[:, :, None], 3, 2)
    kiln.matmul(*operands, out=out, scale_a=scales[0], scale_b=scales[1])
    np.testing.assert_array_equal(out, expected)
    for pitch in (5, 8):
        padded = np.full((2, 2, pitch), np.nan, np.float32)
        padded[:, :, :5] = scales[0].transpose(0, 2, 1)
        view = padded[:, :, :5].transpose(0, 2, 1)
        out[:] = 0
        kiln.matmul(*operands, out=out, scale_a=view, scale_b=scales[1])
        np.testing.assert_array_equal(out, expected)
        # One product, and scales of B.
        turned = Tensor(b[0].T.copy(), "float8_e4m3fn"), Tensor(a[0].T, "float8_e4m3fn")
        product = np.empty((3, 5), np.float32)
        kiln.matmul(*turned, out=product, scale_a=scales[1][0], scale_b=view[0])
        np.testing.assert_array_equal(product, expected[0].T)
    with pytest.raises(ValueError, match="must be contiguous, or have adjacent lines, 5 or 8 apart"):
        wide = np.ones((2, 2, 12), np.float32)[:, :, :5].transpose(0, 2, 1)
        kiln.matmul(*operands, out=out, scale_a=wide, scale_b=scales[1])
    with pytest.raises(ValueError, match="must be contiguous"):
        kiln.matmul(*operands, out=out, scale_a=np.ones((2, 10), np.float32)[:, ::2], scale_b=scales[1])


def test_groups_of_k_share_blocks_of_scales():
    """Both groups have elements of the second block."""
    a, b = np.full((4, 256), 0x38, np.uint8), np.full((256, 3), 0x38, np.uint8)
    operands = Tensor(a, "float8_e4m3fn"), Tensor(b, "float8_e4m3fn")
    blocks = np.array([[1, 2]] * 4, np.float32), np.array([[1, 4]] * 3, np.float32)
    out = np.empty((2, 4, 3), np.float32)
    ends = np.array([200, 256], np.int32)
    kiln.matmul(*operands, out=out, groups=ends, scale_a=blocks[0], scale_b=blocks[1])
    np.testing.assert_array_equal(out[0], np.full((4, 3), 128 + 72 * 8))
    np.testing.assert_array_equal(out[1], np.full((4, 3), 56 * 8))
    lines = np.array([[1] * 4, [2] * 4], np.float32)
    kiln.matmul(*operands, out=out, groups=ends, scale_a=lines, scale_b=np.ones((2, 3), np.float32))
    np.testing.assert_array_equal(out[:, 0, 0], [200, 112])


def test_float8_weights():
    """Beside an a of 16 bits 0x38 is 1 in e4m3, 0xc0 is -2; scales are of every kind and type."""
    a = Tensor(to_bfloat16(np.ones((3, 256), np.float32)), "bfloat16")
    codes = np.full((4, 256), 0x38, np.uint8)
    codes[2] = 0xC0
    b = Tensor(codes.T, "float8_e4m3fn")
    out = np.empty((3, 4), np.float32)
    expected = 256 * np.array([1, 1, -2, 1])
    for shape in [(4,), (4, 8), (4, 4), (4, 2), (1, 2)]:
        scales = np.full(shape, 0.5, np.float32)
        kiln.matmul(a, b, out=out, scale_b=scales)
        np.testing.assert_array_equal(out, np.tile(expected / 2, (3, 1)))
        kiln.matmul(a, b, out=out, scale_b=scales.astype(np.float16))
        np.testing.assert_array_equal(out, np.tile(expected / 2, (3, 1)))
    powers = np.full((4, 8), 126, np.uint8)  # 2^-1
    kiln.matmul(a, b, out=out, scale_b=powers)
    np.testing.assert_array_equal(out, np.tile(expected / 2, (3, 1)))
    with pytest.raises(ValueError, match=r"scale_b = .* \(5,\).*: must be float32, bfloat16 or float16"):
        kiln.matmul(a, b, out=out, scale_b=np.ones(5, np.float32))


def test_result_needs_a_library_that_kiln_knows():
    a = Tensor(random((4, 4)), "float32")
    with pytest.raises(TypeError, match="out is not given"):
        kiln.matmul(a, a)


def test_unknown_types_and_devices():
    a, out = random((4, 4)), np.empty((4, 4), np.float32)
    with pytest.raises(TypeError, match="a.dtype"):
        kiln.matmul(Tensor(a.astype(np.int64), "int64"), a, out=out)
    with pytest.raises(ValueError, match="b is on cuda:1, a on cpu"):
        kiln.matmul(a, Tensor(a, "float32", device=(2, 1)), out=out)
    with pytest.raises(ValueError, match="device type 7"):
        kiln.matmul(Tensor(a, "float32", device=(7, 0)), a, out=out)


class OnGpu:
    """What numba and others show of an array on a GPU."""

    def __init__(self, array, strides=None, **said):
        self.array = array
        self.__cuda_array_interface__ = {
            "shape": array.shape,
            "typestr": array.dtype.str,
            "data": (array.ctypes.data, False),
            "strides": strides,
            "version": 3,
            **said,
        }


def test_cuda_array_interface_is_read():
    a = np.ones((4, 6), np.float32)
    assert kiln.problem(OnGpu(a), OnGpu(a.T, a.T.strides)) == "fp32 N T 4 4 6"
    with pytest.raises(ValueError, match="b is on cpu, a on cuda:0"):
        kiln.matmul(OnGpu(a), a.T)


@pytest.mark.parametrize("count", [0, 1, 3, 4, 8, 1000])
def test_cuda_array_interface_has_a_stride_for_each_dimension(count):
    a = np.ones((4, 6), np.float32)
    with pytest.raises(kiln.BadInput, match=rf"a\.strides has {count} items, its shape 2"):
        kiln.problem(OnGpu(a, (4,) * count), a.T)


@pytest.mark.parametrize("bad", [-1, -4, -(2**63)])
@pytest.mark.parametrize("place", [0, 1])
def test_negative_sizes_are_refused(bad, place):
    """By each reader: NumPy itself makes no such array."""
    a = np.ones((4, 6), np.float32)
    shape = tuple(bad if i == place else size for i, size in enumerate(a.shape))
    words = rf"a\.shape = \({shape[0]}, {shape[1]}\): must not be negative"
    with pytest.raises(kiln.BadInput, match=words):
        kiln.problem(OnGpu(a, shape=shape), a.T)
    for strides in (True, False):
        with pytest.raises(kiln.BadInput, match=words):
            kiln.problem(Tensor(a, "float32", shape=shape, strides=strides), a.T)


def test_sizes_and_strides_that_overflow_are_refused():
    a = np.ones((4, 6), np.float32)
    for shape in ((2**40, 2**40), (2, 2**62), (2**31, 2**31, 2**31)):
        for operand in (OnGpu(a, shape=shape), Tensor(a, "float32", shape=shape, strides=False)):
            with pytest.raises(kiln.BadInput, match=r"a\.shape = .*: more bytes of float32 than"):
                kiln.problem(operand, a.T)
    with pytest.raises(kiln.BadInput, match="reach further than 64 bits count"):
        kiln.problem(OnGpu(a, strides=(2**62, 4)), a.T)


def test_numbers_of_dimensions_of_foreign_descriptions():
    a = np.ones((4, 6), np.float32)
    for dims in (0, 4, 64):
        with pytest.raises(kiln.BadInput, match=f"a has {dims} dimensions"):
            kiln.problem(OnGpu(a, shape=(1,) * dims), a.T)
    for dims in (-1, -(2**31), 4, 2**31 - 1):
        with pytest.raises(kiln.BadInput, match=f"a has {dims} dimensions"):
            kiln.problem(Tensor(a, "float32", ndim=dims), a.T)
    with pytest.raises(kiln.BadInput, match="DLPack's device_id = -1"):
        kiln.problem(Tensor(a, "float32", device=(2, -1)), a.T)


@pytest.mark.parametrize(
    "error, words, said",
    [
        (TypeError, r"a\.shape = int: must be a tuple", {"shape": 4}),
        (TypeError, r"a\.shape: 'x': must be an integer", {"shape": ("x", 6)}),
        (ValueError, r"a\.shape: 18446744073709551616: does not fit", {"shape": (2**64, 6)}),
        (ValueError, r"a\.strides: -36893488147419103232: does not", {"strides": (-(2**65), 4)}),
        (TypeError, r"a\.strides = int: must be a tuple", {"strides": 4}),
        (ValueError, r"a\.data has 1 items", {"data": (0,)}),
        (TypeError, r"a\.data = NoneType: must be a tuple", {"data": None}),
        (TypeError, r"a\.typestr = int: must be a str", {"typestr": 4}),
    ],
)
def test_fields_of_cuda_array_interface_are_checked(error, words, said):
    a = np.ones((4, 6), np.float32)
    with pytest.raises(error, match=words):
        kiln.problem(OnGpu(a, **said), a.T)


def test_fields_of_cuda_array_interface_must_be_there():
    a = np.ones((4, 6), np.float32)
    for field in ("shape", "data", "typestr"):
        operand = OnGpu(a)
        del operand.__cuda_array_interface__[field]
        with pytest.raises(TypeError, match=f"its __cuda_array_interface__ has no '{field}'"):
            kiln.problem(operand, a.T)


@pytest.mark.skipif(not importlib.util.find_spec("ml_dtypes"), reason="no ml_dtypes")
def test_ml_dtypes():
    import ml_dtypes

    a, b = random((9, 40)).astype(ml_dtypes.bfloat16), random((40, 12), 2).astype(ml_dtypes.bfloat16)
    result = kiln.matmul(a, b)
    assert result.dtype == ml_dtypes.bfloat16
    exact = a.astype(float) @ b.astype(float)
    np.testing.assert_allclose(result.astype(float), exact, rtol=2**-7, atol=1e-5)


@pytest.mark.skipif(not importlib.util.find_spec("torch"), reason="no torch")
def test_torch():
    import torch

    for dtype in (torch.float32, torch.bfloat16):
        x, w = torch.randn(5, 8).to(dtype), torch.randn(6, 8).to(dtype)
        result = kiln.matmul(x, w.T)
        assert result.dtype == dtype
        torch.testing.assert_close(result, x @ w.T, rtol=2e-2, atol=2e-2)
