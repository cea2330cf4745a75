"""Lists of unrelated products."""

import numpy as np
import pytest

import kiln
from tensors import Tensor

RANDOM = np.random.default_rng(17)
SIZES = [(20, 8, 12), (1, 5, 12), (7, 1, 3), (0, 4, 6), (3, 4, 0), (33, 8, 1)]


def drawn(*shape):
    return RANDOM.uniform(-1, 1, shape).astype(np.float32)


A = [drawn(m, k) for m, n, k in SIZES]
B = [drawn(k, n) for m, n, k in SIZES]


def near(results, expected):
    assert len(results) == len(expected)
    for result, wanted in zip(results, expected):
        np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-5)


def products():
    return [a @ b for a, b in zip(A, B)]


def test_products_of_any_sizes():
    near(kiln.matmul_list(A, B), products())
    near(kiln.matmul_list(tuple(A), iter(B)), products())
    assert kiln.matmul_list([], []) == []


def test_columns_and_pitches():
    a = [np.asfortranarray(x) for x in A]
    wide = [drawn(m, n + 3) for m, n, k in SIZES]
    out = [x[:, :n] for x, (m, n, k) in zip(wide, SIZES)]
    assert kiln.matmul_list(a, B, out=out)[2] is out[2]
    near(out, products())
    near([x.T for x in kiln.matmul_list([b.T for b in B], [x.T for x in a])], products())


def test_out_by_columns():
    out = [np.empty((n, m), np.float32).T for m, n, k in SIZES]
    kiln.matmul_list(A, B, out=out)
    near(out, products())


def test_epilogue():
    bias = [drawn(n) for m, n, k in SIZES]
    c = [drawn(m, n) for m, n, k in SIZES]
    residual = [drawn(m, n) for m, n, k in SIZES]
    found = kiln.matmul_list(
        A, B, bias=bias, c=c, beta=-0.5, alpha=2, residual=residual, activation="relu"
    )
    wanted = [
        np.maximum(2 * p - 0.5 * q + v, 0) + r for p, q, v, r in zip(products(), c, bias, residual)
    ]
    near(found, wanted)


def test_gates():
    b = [drawn(k, 2 * n) for m, n, k in SIZES]
    wanted = []
    for x, w, (m, n, k) in zip(A, b, SIZES):
        y = x @ w
        wanted.append(y[:, :n] / (1 + np.exp(-y[:, :n])) * y[:, n:])
    near(kiln.matmul_list(A, b, gate="silu"), wanted)


def test_scales_of_integers():
    a = [RANDOM.integers(-128, 128, (m, k), np.int8) for m, n, k in SIZES]
    b = [RANDOM.integers(-128, 128, (k, n), np.int8) for m, n, k in SIZES]
    rows = [RANDOM.uniform(0.5, 2, m).astype(np.float32) for m, n, k in SIZES]
    ones = [np.array(RANDOM.uniform(0.5, 2), np.float32) for _ in SIZES]
    found = kiln.matmul_list(a, b, scale_a=rows, scale_b=ones, out_dtype="float32")
    wanted = [
        (x.astype(np.float64) @ y.astype(np.float64)) * r[:, None] * s
        for x, y, r, s in zip(a, b, rows, ones)
    ]
    near(found, wanted)
    codes = [np.empty((m, n), np.int8) for m, n, k in SIZES]
    scales = [np.empty(m, np.float32) for m, n, k in SIZES]
    kiln.matmul_list(a, b, scale_a=rows, scale_b=ones, out=codes, scale_d=scales)
    for code, scale, values in zip(codes, scales, wanted):
        if values.size:
            error = np.abs(code * scale[:, None] - values)
            assert (error <= 0.51 * scale[:, None]).all()


# Some codes of eight bits, and what they stand for.
CODES = np.array([0x00, 0x38, 0x40, 0xB8, 0x30], np.uint8)
VALUES = np.array([0, 1, 2, -1, 0.5], np.float32)


@pytest.mark.parametrize("across", [False, True])
def test_block_scales(across):
    sizes = [(5, 130, 300), (1, 2, 256), (8, 256, 100), (4, 3, 0)]
    a = [RANDOM.integers(0, 5, (m, k)) for m, n, k in sizes]
    b = [RANDOM.integers(0, 5, (n, k)) for m, n, k in sizes]
    of_a = [1 + drawn(m, -(-k // 128)) ** 2 for m, n, k in sizes]
    of_b = [1 + drawn(-(-n // 128), -(-k // 128)) ** 2 for m, n, k in sizes]
    out = [np.empty((m, n), np.float32) for m, n, k in sizes]
    kiln.matmul_list(
        [Tensor(CODES[x], "float8_e4m3fn") for x in a],
        [Tensor(CODES[x].T, "float8_e4m3fn") for x in b],
        scale_a=[np.ascontiguousarray(s.T).T for s in of_a] if across else of_a,
        scale_b=of_b,
        out=out,
    )
    for found, x, w, s, t, (m, n, k) in zip(out, a, b, of_a, of_b, sizes):
        rows = VALUES[x] * np.repeat(s, 128, 1)[:, :k]
        columns = VALUES[w] * np.repeat(np.repeat(t, 128, 0)[:n], 128, 1)[:, :k]
        np.testing.assert_allclose(found, rows @ columns.T, rtol=1e-4, atol=1e-3)


def test_its_problem():
    line = kiln.problem_of_list(A, B, activation="relu", largest=(64, 4, 4), count=8)
    assert line == "fp32 N N 64 8 12 groups=8 grouped=list epilogue=relu"
    with kiln.Engine(":memory:", threads=1) as engine:
        near(engine.matmul_list(A, B, largest=(64, 4, 4), count=8), products())


@pytest.mark.parametrize(
    "error, words, change",
    [
        (kiln.BadInput, "b has 1 items, a 6", {"b": B[:1]}),
        (TypeError, "a = int: must be a sequence of arrays", {"a": 3}),
        (TypeError, "unexpected argument 'groups'", {"groups": [1]}),
        (kiln.BadInput, "product 1: a = .* a has 12 columns, b has 3 rows",
         {"b": [B[0], B[2], *B[2:]]}),
        (TypeError, "product 2: a and b are needed", {"a": [*A[:2], None, *A[3:]]}),
        (kiln.BadInput, "product 0 is 'fp32 N N 0 0 0', product 1|product 1 is 'fp64 N N 0 0 0'",
         {"a": [A[0], A[1].astype("f8"), *A[2:]], "b": [B[0], B[1].astype("f8"), *B[2:]]}),
        (kiln.BadInput, "product 5 is 'fp32 N T 0 0 0', product 0 'fp32 N N 0 0 0'",
         {"a": [*A[:5], drawn(3, 4)], "b": [*B[:5], drawn(5, 4).T]}),
        (kiln.BadInput, "product 1 is", {"bias": [drawn(8)] + [None] * 5}),
        (kiln.BadInput, "overlaps its d", {"out": [A[0][:, :8], *[
            np.empty((m, n), np.float32) for m, n, k in SIZES[1:]]]}),
        (kiln.BadInput, "largest: must be", {"largest": (1, 2)}),
    ],
)
def test_what_is_refused(error, words, change):
    arguments = {"a": A, "b": B, **change}
    with pytest.raises(error, match=words):
        kiln.matmul_list(**arguments)
