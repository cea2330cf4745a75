"""Products with a gate and grouped ones."""

import threading

import numpy as np
import pytest

import kiln

RANDOM = np.random.default_rng(3)
GROUPS, M, N, K = 3, 20, 8, 12
B = RANDOM.uniform(-1, 1, (GROUPS, K, N)).astype(np.float32)
BIAS = RANDOM.uniform(-1, 1, (GROUPS, N)).astype(np.float32)


def near(result, expected):
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("order", ["stacked", "interleaved"])
def test_gate(order):
    a = RANDOM.uniform(-1, 1, (M, K)).astype(np.float32)
    x, y = (a @ B[0, :, :4], a @ B[0, :, 4:]) if order == "stacked" else (
        a @ B[0, :, ::2], a @ B[0, :, 1::2])
    gate = "silu" if order == "stacked" else "silu:interleaved"
    near(kiln.matmul(a, B[0], gate=gate), x / (1 + np.exp(-x)) * y)


def test_rows_of_one_matrix():
    a = RANDOM.uniform(-1, 1, (M, K)).astype(np.float32)
    ends = np.array([7, 7, 15], np.int32)
    out = np.full((M, N), -1, np.float32)
    kiln.matmul(a, B, groups=ends, bias=BIAS, out=out)
    near(out[:7], a[:7] @ B[0] + BIAS[0])
    near(out[7:15], a[7:15] @ B[2] + BIAS[2])
    assert (out[15:] == -1).all()


def test_masked_rows():
    a = RANDOM.uniform(-1, 1, (GROUPS, M, K)).astype(np.float32)
    counts = np.array([0, M, 5], np.int32)
    out = np.full((GROUPS, M, N), -1, np.float32)
    kiln.matmul(a, B, groups=counts, out=out)
    assert (out[0] == -1).all() and (out[2, 5:] == -1).all()
    near(out[1], a[1] @ B[1])
    near(out[2, :5], a[2, :5] @ B[2])


def test_expressions_of_groups():
    a = RANDOM.uniform(-1, 1, (M, K)).astype(np.float32)
    ends = np.array([7, 7, 15], np.int32)
    stored = kiln.matmul(a, B, groups=ends, epilogue="d=acc+b[batch,n];q[m]=sum(acc)", b=BIAS)
    near(stored["d"][:7], a[:7] @ B[0] + BIAS[0])
    near(stored["d"][7:15], a[7:15] @ B[2] + BIAS[2])
    near(stored["q"][7:15], (a[7:15] @ B[2]).sum(axis=1))
    masked = np.stack([a, a, a])
    counts = np.array([2, 0, M], np.int32)
    stored = kiln.matmul(masked, B, groups=counts, epilogue="d=acc*b[batch,n];q[batch,m]=max(acc)",
                         b=BIAS)
    near(stored["d"][0, :2], a[:2] @ B[0] * BIAS[0])
    near(stored["q"][2], (a @ B[2]).max(axis=1))


def test_groups_of_k():
    tokens, grads = (RANDOM.uniform(-1, 1, (30, n)).astype(np.float32) for n in (M, N))
    ends = np.array([7, 7, 25], np.int32)
    out = kiln.matmul(tokens.T, grads, groups=ends, bias=BIAS)
    assert out.shape == (GROUPS, M, N)
    near(out[0], tokens[:7].T @ grads[:7] + BIAS[0])
    near(out[1], np.broadcast_to(BIAS[1], (M, N)))
    near(out[2], tokens[7:25].T @ grads[7:25] + BIAS[2])
    before = RANDOM.uniform(-1, 1, (GROUPS, M, N)).astype(np.float32)
    out = before.copy()
    kiln.matmul(tokens.T, grads, groups=ends, c=out, beta=1, out=out)
    near(out[1], before[1])
    near(out[2], before[2] + tokens[7:25].T @ grads[7:25])


@pytest.mark.parametrize(
    "error, words, change",
    [
        (kiln.BadInput, "must have shape (3,)", {"groups": np.array([1, 2], np.int32)}),
        (TypeError, "groups.dtype = float32: must be int32", {"groups": np.ones(3, np.float32)}),
        (kiln.BadInput, "groups need a matrix of b each",
         {"a": np.ones((3, M, K), np.float32), "b": B[0]}),
        (kiln.BadInput, "must have shape (3, 8)", {"bias": BIAS[0]}),
    ],
)
def test_what_is_refused(error, words, change):
    ones = np.ones((M, K), np.float32)
    arguments = {"a": ones, "b": B, "groups": np.array([1, 2, 3], np.int32), **change}
    with pytest.raises(error, match=words.replace("(", r"\(").replace(")", r"\)")):
        kiln.matmul(**arguments)


def test_gather_and_scatter():
    tokens = RANDOM.uniform(-1, 1, (9, K)).astype(np.float32)
    ends = np.array([4, 4, 11], np.int32)
    rows = RANDOM.integers(0, 9, 14).astype(np.int32)
    to = RANDOM.permutation(20)[:14].astype(np.int32)
    expected = np.concatenate([tokens[rows[:4]] @ B[0], tokens[rows[4:11]] @ B[2]])
    near(kiln.matmul(tokens, B, groups=ends, gather=rows)[:11], expected)
    out = np.full((20, N), -1, np.float32)
    kiln.matmul(tokens, B, groups=ends, gather=rows, scatter=to, out=out)
    near(out[to[:11]], expected)
    others = np.setdiff1d(np.arange(20), to[:11])
    assert (out[others] == -1).all()
    a = RANDOM.uniform(-1, 1, (14, K)).astype(np.float32)
    kiln.matmul(a, B, groups=ends, scatter=to, out=out)
    near(out[to[:4]], a[:4] @ B[0])


def test_lists_are_those_of_the_call_whatever_other_threads_write():
    """A call has left the interpreter's lock while it computes: what others write into its lists then
    would otherwise move rows, or lead beyond the arrays."""
    tokens = RANDOM.uniform(-1, 1, (400, 256)).astype(np.float32)
    b = RANDOM.uniform(-1, 1, (1, 256, 64)).astype(np.float32)
    ends = np.array([400], np.int32)
    lists = [np.arange(400, dtype=np.int32), np.arange(400, dtype=np.int32)[::-1].copy()]
    wanted = [kiln.matmul(tokens, b, groups=ends, gather=rows, threads=1) for rows in lists]
    rows, over = lists[0].copy(), threading.Event()
    memory = memoryview(rows).cast("B")

    def write():
        while not over.is_set():
            for other in lists:
                memory[:] = other.tobytes()  # whole, under the lock: NumPy copies without it

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(100):
            result = kiln.matmul(tokens, b, groups=ends, gather=rows, threads=1)
            assert any((result == one).all() for one in wanted)
    finally:
        over.set()
        writer.join()


def test_rows_that_are_added():
    a = RANDOM.uniform(-1, 1, (14, K)).astype(np.float32)
    ends = np.array([4, 4, 11], np.int32)
    to = np.array([0, 1, 2, -1, 0, 1, 99, 3, 2, 0, 3, 5, 5, 5], np.int32)
    weights = RANDOM.uniform(0, 1, 14).astype(np.float32)
    product = np.concatenate([a[:4] @ B[0], a[4:11] @ B[2]])
    for given in (None, weights):
        expected = np.zeros((7, N), np.float32)
        for row, at in enumerate(to[:11]):
            if at >= 0:
                expected[min(at, 6)] += product[row] * (1 if given is None else given[row])
        out = np.full((7, N), -1, np.float32)
        more = {"add_rows": True} if given is None else {"row_weights": given}
        kiln.matmul(a, B, groups=ends, scatter=to, out=out, **more)
        near(out, expected)
        before = out.copy()
        kiln.matmul(a, B, groups=ends, scatter=to, out=out, c=out, beta=1, **more)
        near(out, before + expected)


@pytest.mark.parametrize(
    "error, words, change",
    [
        (kiln.BadInput, "row_weights is given without scatter", {"row_weights": np.ones(M, np.float32),
                                                                 "scatter": None}),
        (TypeError, "row_weights.dtype = float64: must be float32", {"row_weights": np.ones(M)}),
        (kiln.BadInput, "must have shape (20,)", {"row_weights": np.ones(3, np.float32)}),
        (kiln.BadInput, "must have shape (20,)", {"scatter": np.arange(3, dtype=np.int32)}),
        (TypeError, "gather.dtype = float32: must be int32", {"gather": np.ones(3, np.float32)}),
        (kiln.BadInput, "scatter is given without out", {"out": None}),
        (kiln.BadInput, "scatter needs groups", {"groups": None, "b": B[0]}),
    ],
)
def test_what_lists_refuse(error, words, change):
    ones = np.ones((M, K), np.float32)
    arguments = {"a": ones, "b": B, "groups": np.array([1, 2, 3], np.int32),
                 "scatter": np.arange(M, dtype=np.int32), "out": np.ones((M, N), np.float32), **change}
    with pytest.raises(error, match=words.replace("(", r"\(").replace(")", r"\)")):
        kiln.matmul(**arguments)
