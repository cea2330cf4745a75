"""The largest magnitude of out, which a call writes beside it."""

import kiln
import numpy as np
import pytest

RANDOM = np.random.default_rng(3)
A = RANDOM.uniform(-1, 1, (6, 40)).astype(np.float32)
B = RANDOM.uniform(-1, 1, (40, 24)).astype(np.float32)


@pytest.mark.parametrize("shape", [(), (1,)])
def test_it_is_of_the_whole_of_out(shape):
    amax = np.full(shape, 1e9, np.float32)
    out = kiln.matmul(A, B, amax_d=amax)
    assert amax == np.abs(out).max()


def test_of_all_batches_after_the_epilogue():
    a = np.stack([A, -3 * A])
    bias = RANDOM.uniform(-1, 1, 24).astype(np.float32)
    amax = np.zeros((), np.float32)
    out = kiln.matmul(a, B, bias=bias, activation="relu", amax_d=amax)
    assert amax == out.max()


def test_delayed_scaling():
    """The scale of the next step's codes comes from the magnitude of this one's values."""
    amax = np.zeros((), np.float32)
    scale = np.array(np.abs(A @ B).max() / 100, np.float32)
    codes = np.empty((6, 24), np.int8)
    kiln.matmul(A, B, out=codes, scale_d=scale, amax_d=amax)
    np.testing.assert_allclose(amax, np.abs(A @ B).max(), rtol=1e-5)
    assert abs(np.abs(codes).max() - 100) <= 1


def test_nan_is_more_than_all():
    a = A.copy()
    a[2, 5] = np.nan
    amax = np.zeros((), np.float32)
    kiln.matmul(a, B, amax_d=amax)
    assert np.isnan(amax)


@pytest.mark.parametrize("wrong", [np.zeros(2, "f4"), np.zeros((), "f8"), np.zeros((1, 1), "f4")])
def test_other_arrays_are_refused(wrong):
    with pytest.raises(ValueError, match=r"amax_d.*must be float32 of shape \(\) or \(1,\)"):
        kiln.matmul(A, B, amax_d=wrong)


def test_refusals():
    amax = np.zeros((), np.float32)
    with pytest.raises(kiln.Unsupported, match="amax_d = true: scale_d = line"):
        kiln.matmul(
            A,
            B,
            out=np.empty((6, 24), np.int8),
            scale_d=np.empty(6, np.float32),
            amax_d=amax,
        )
    amax.flags.writeable = False
    with pytest.raises(ValueError, match="amax_d is read-only"):
        kiln.matmul(A, B, amax_d=amax)
