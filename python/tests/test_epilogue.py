"""alpha, beta, bias, activation, residual, scales, packed B: what is done beside the product."""

import math

import numpy as np
import pytest

import kiln

M, N, K = 17, 12, 29
ACTIVATIONS = {
    "none": lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "gelu_erf": lambda x: 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))),
    "silu": lambda x: x / (1 + np.exp(-x)),
}


@pytest.fixture(name="a")
def make_a():
    return np.random.default_rng(1).uniform(-1, 1, (M, K)).astype(np.float32)


@pytest.fixture(name="b")
def make_b():
    return np.random.default_rng(2).uniform(-1, 1, (K, N)).astype(np.float32)


def near(result, expected):
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation(a, b, name):
    near(kiln.matmul(a, b, activation=name), ACTIVATIONS[name](a.astype(float) @ b))


@pytest.mark.parametrize("shape", [(N,), (1, N), (M, 1)])
def test_bias(a, b, shape):
    bias = np.arange(max(shape), dtype=np.float32).reshape(shape)
    near(kiln.matmul(a, b, bias=bias), a @ b + bias)
    doubles = a.astype(float), b.astype(float)
    near(kiln.matmul(*doubles, bias=bias.astype(float)), a @ b + bias)
    halves = a.astype("e"), b.astype("e")
    expected = np.matmul(*(x.astype("f4") for x in halves)) + bias
    for kind in "fe":
        result = kiln.matmul(*halves, bias=bias.astype(kind))
        np.testing.assert_allclose(result, expected, rtol=2e-3, atol=2e-3)


def test_all_at_once(a, b):
    residual = np.full((M, N), 3, np.float32)
    c = np.arange(M * N, dtype=np.float32).reshape(M, N) / 100
    bias = np.linspace(-1, 1, N, dtype=np.float32)
    result = kiln.matmul(
        a, b, alpha=0.5, beta=2, c=c, bias=bias, activation="silu", residual=residual
    )
    near(result, ACTIVATIONS["silu"](0.5 * (a @ b) + 2 * c + bias) + 3)


def test_c_may_be_out(a, b):
    out = np.ones((M, N), np.float32)
    kiln.matmul(a, b, beta=1.0, c=out, out=out)
    near(out, a @ b + 1)


def test_column_major_out_takes_such_terms(a, b):
    c, residual = (np.full((M, N), x, np.float32, order="F") for x in (1, 2))
    out = np.empty_like(c)
    kiln.matmul(a, b, out=out, beta=1, c=c, residual=residual)
    near(out, a @ b + 3)


def test_terms_of_a_batch_with_one_b(a, b):
    batch = np.stack([a, 2 * a, 3 * a])
    bias = np.arange(N, dtype=np.float32)
    residual = np.ones((3, M, N), np.float32)
    near(kiln.matmul(batch, b, bias=bias, residual=residual), batch @ b + bias + 1)
    with pytest.raises(kiln.BadInput, match="bias"):
        kiln.matmul(batch, b, bias=np.ones((M, 1), np.float32))


def test_nan_in_c_is_not_read_without_beta(a, b):
    c = np.full((M, N), np.nan, np.float32)
    near(kiln.matmul(a, b, beta=0, c=c), a @ b)


@pytest.mark.parametrize("transposed", [False, True])
def test_packed_b(a, b, transposed):
    stored = np.ascontiguousarray(b.T).T if transposed else b
    packed = kiln.PackedB(stored)
    assert packed.shape == (K, N) and packed.dtype == "float32" and packed.nbytes > 0
    expected = a @ b
    if transposed:
        stored[:] = 0  # the copy is its own
    bias = np.ones(N, np.float32)
    near(kiln.matmul(a, packed), expected)
    near(kiln.matmul(a[:3], packed, bias=bias), expected[:3] + 1)
    near(kiln.matmul(np.stack([a, a]), packed), np.stack([expected, expected]))
    assert "packed_b=1" in kiln.problem(a, packed)


def test_packed_types_and_batches():
    generator = np.random.default_rng(3)
    for left, right in ((np.int8, np.int8), (np.uint8, np.int8), (np.int8, np.uint8)):
        a = generator.integers(0, 100, (3, 5, 8)).astype(left)
        b = generator.integers(0, 100, (3, 8, 7)).astype(right)
        expected = a.astype(int) @ b.astype(int)
        np.testing.assert_array_equal(kiln.matmul(a, kiln.PackedB(b)), expected)


def test_packed_b_of_another_shape(a):
    packed = kiln.PackedB(np.ones((K + 1, N), np.float32))
    with pytest.raises(ValueError, match=f"a has {K} columns, b has {K + 1} rows"):
        kiln.matmul(a, packed)


def test_expression(a, b):
    product = a.astype(float) @ b
    rows = np.linspace(0.5, 2, M).astype(np.float32)
    columns = np.linspace(-1, 1, N).astype(np.float16)
    matrix = np.random.default_rng(3).uniform(-1, 1, (M, N)).astype(np.float32)
    result = kiln.matmul(a, b, epilogue="y=acc*s[m]+bias[n];d=max(y,low[])*r[m,n]",
                         s=rows, bias=columns, low=-0.25, r=matrix)
    near(result, np.maximum(product * rows[:, None] + columns, -0.25) * matrix)
    turned = np.asfortranarray(matrix)
    near(kiln.matmul(a, b, epilogue="d=acc+b[m,n]", b=turned), product + matrix)
    wide = np.zeros((M, N + 5), np.float32)[:, :N]
    wide[:] = matrix
    near(kiln.matmul(a, b, alpha=2, epilogue="d=tanh(acc)-a[m,n]", a=wide),
         np.tanh(2 * product) - matrix)


def test_scalars_are_numbers(a, b):
    want = (a @ b) * 0.5
    for scalar in ("s[]", "s[]:host"):
        d = kiln.matmul(a, b, epilogue=f"d=acc*{scalar}", s=0.5)
        np.testing.assert_allclose(d, want, rtol=1e-5)
        # The problem is the one that the text names, which may have been tuned.
        assert kiln.problem(a, b, epilogue=f"d=acc*{scalar}", s=0.5).endswith(
            f" epilogue=d=acc*{scalar.replace('s', 'x0', 1)}"
        )
    for scalar in (np.float32(0.5), np.float64(0.5), np.array(0.5, np.float16), np.array([0.5])[0]):
        d = kiln.matmul(a, b, epilogue="d=acc*s[]:host", s=scalar)
        np.testing.assert_allclose(d, want, rtol=1e-5)
    d = kiln.matmul(a, b, epilogue=lambda acc, s: acc * s, s=0.5)
    np.testing.assert_allclose(d, want, rtol=1e-5)
    rounded = kiln.matmul(a, b, epilogue="d=0*acc+s[]:bf16:host", s=1.01)
    np.testing.assert_array_equal(rounded, np.full((M, N), 1.0078125, np.float32))
    wide = kiln.matmul(a.astype("d"), b.astype("d"), epilogue="d=0*acc+s[]", s=0.1)
    np.testing.assert_array_equal(wide, np.full((M, N), 0.1))
    with pytest.raises(TypeError, match="s = str: must be a number"):
        kiln.matmul(a, b, epilogue="d=acc*s[]:host", s="half")


def test_expressions_are_functions(a, b):
    from kiln import expressions as ex

    product = a.astype(float) @ b
    columns, rows = np.linspace(-1, 1, N).astype(np.float32), np.linspace(1, 2, M).astype(np.float32)
    matrix = np.random.default_rng(3).uniform(-1, 1, (M, N)).astype(np.float32)
    near(kiln.matmul(a, b, epilogue=lambda acc, t, s, r: ex.maximum(acc * s + t, -0.25) * r - 1,
                     t=columns, s=rows, r=matrix),
         np.maximum(product * rows[:, None] + columns, -0.25) * matrix - 1)

    def norm(acc, r):
        y = acc + r
        return {"d": ex.where(y > 0, y, 0.5 * y), "q": ex.sum(y * y), "top": ex.max(abs(y), "mn"),
                "raw": acc, "g": ex.min(-acc / 2, over="m")}

    made = kiln.matmul(a, b, epilogue=norm, r=matrix)
    y = product + matrix
    near(made["d"], np.where(y > 0, y, 0.5 * y))
    near(made["raw"], product)
    np.testing.assert_allclose(made["q"], (y * y).sum(1), rtol=1e-4)
    np.testing.assert_allclose(made["top"], abs(y).max(), rtol=1e-5)
    np.testing.assert_allclose(made["g"], (-product / 2).min(0), rtol=1e-4)
    shapes = {"r": (M, N), "c": (), "z": (2, M, N)}
    assert ex.text_of(norm, shapes, (M, N), False) == (
        "kiln_t0=(acc+r[m,n]);d=where(kiln_t0>0.0,kiln_t0,(0.5*kiln_t0));q[m]=sum[m]((kiln_t0*kiln_t0));"
        "top[]=max[](abs(kiln_t0));raw[m,n]=acc;g[n]=min[n](((-(acc))/2.0))")
    assert ex.text_of(lambda acc, z: {"l": ex.logsumexp(acc + z)}, shapes, (M, N), True) == (
        "l[batch,m]=logsumexp[m]((acc+z[batch,m,n]))")
    assert ex.text_of(lambda acc, c: ex.where(ex.n <= ex.m, acc, c), shapes, (M, N), False) == (
        "d=where(n<=m,acc,c[])")
    with pytest.raises(TypeError, match="no truth value"):
        kiln.matmul(a, b, epilogue=lambda acc: acc if acc > 0 else -acc)
    with pytest.raises(TypeError, match="c is not given"):
        kiln.matmul(a, b, epilogue=lambda acc, c: acc + c)
    with pytest.raises(ValueError, match="must be m, n or mn"):
        kiln.matmul(a, b, epilogue=lambda acc: {"q": ex.sum(acc, "k")})


def test_expressions_are_gates(a, b):
    half = N // 2
    product = a.astype(float) @ b
    first, second = product[:, :half], product[:, half:]
    expected = ACTIVATIONS["silu"](first) * second
    near(kiln.matmul(a, b, epilogue="d=silu(acc0)*acc1"), expected)
    near(kiln.matmul(a, b, gate="silu"), expected)
    even, odd = product[:, ::2], product[:, 1::2]
    near(kiln.matmul(a, b, epilogue="d=acc0-2*acc1", gate="expression:interleaved"), even - 2 * odd)
    bias = np.arange(half, dtype=np.float32)
    from kiln.expressions import max, silu

    stored = kiln.matmul(
        a,
        b,
        epilogue=lambda acc0, acc1, x: {"d": silu(acc0 + x) * acc1, "s": max(abs(acc1))},
        x=bias,
    )
    near(stored["d"], ACTIVATIONS["silu"](first + bias) * second)
    near(stored["s"], np.abs(second).max(axis=1))
    with pytest.raises(kiln.BadInput, match="column 8: acc beside acc0"):
        kiln.matmul(a, b, epilogue="d=acc0*acc")
    with pytest.raises(kiln.BadInput, match="b has 11 columns: a gate needs an even number"):
        kiln.matmul(a, b[:, :11], epilogue="d=acc0*acc1")
    with pytest.raises(kiln.BadInput, match="names neither acc0 nor acc1"):
        kiln.matmul(a, b, gate="expression")
    with pytest.raises(kiln.Unsupported, match="there is no gate beside it"):
        kiln.matmul(a, b, gate="silu", epilogue="d=acc0*acc1")


def test_expressions_store_beside_out(a, b):
    product = a.astype(float) @ b
    squares, largest = np.empty(M, np.float32), np.empty((), np.float32)
    raw = np.empty((M, N), np.float16, order="F")
    result = kiln.matmul(a, b, epilogue="d=relu(acc);q[m]=sum(acc*acc);top[]=max(abs(acc));raw[m,n]=acc",
                         q=squares, top=largest, raw=raw)
    assert result["q"] is squares and set(result) == {"d", "q", "top", "raw"}
    near(result["d"], np.maximum(product, 0))
    np.testing.assert_allclose(squares, (product**2).sum(1), rtol=1e-4)
    np.testing.assert_allclose(largest, abs(product).max(), rtol=1e-5)
    np.testing.assert_allclose(raw, product, rtol=2e-3, atol=2e-3)
    batch = np.stack([a, 2 * a])
    sums = np.empty((2, N), np.float64)
    kiln.matmul(batch, np.stack([b, b]), epilogue="d=acc;s[batch,n]=sum(acc)", s=sums)
    np.testing.assert_allclose(sums, np.stack([product, 2 * product]).sum(1), rtol=1e-3, atol=1e-3)
    made = kiln.matmul(a, b, epilogue="z[n,m]:fp64=acc;d=acc;q[m]=sum(acc);h[m,n]=tanh(acc);e[]=min(acc)")
    assert made["q"].dtype == np.float32 and made["z"].dtype == np.float64 and made["z"].shape == (N, M)
    np.testing.assert_allclose(made["q"], product.sum(1), rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(made["e"], product.min(), rtol=1e-4)
    near(made["z"], product.T)
    near(made["h"], np.tanh(product))
    alone = kiln.matmul(a, b, epilogue="l[m]=logsumexp(acc)")
    assert set(alone) == {"l"}
    np.testing.assert_allclose(alone["l"], np.log(np.exp(product).sum(1)), rtol=1e-4, atol=1e-4)
    with pytest.raises(TypeError, match="out is given: the epilogue has no d"):
        kiln.matmul(a, b, epilogue="l[m]=logsumexp(acc)", out=np.empty((M, N), np.float32))
    fixed = np.empty(M, np.float32)
    fixed.flags.writeable = False
    with pytest.raises(kiln.BadInput, match="q is read-only"):
        kiln.matmul(a, b, epilogue="d=acc;q[m]=sum(acc)", q=fixed)
    with pytest.raises(kiln.BadInput, match="must have shape"):
        kiln.matmul(a, b, epilogue="d=acc;q[m]=sum(acc)", q=np.empty(N, np.float32))


def test_expressions_of_batches(a, b):
    batch = np.stack([a, 2 * a])
    other = np.stack([b, -b])
    each = np.random.default_rng(4).uniform(-1, 1, (2, N)).astype(np.float32)
    result = kiln.matmul(batch, other, epilogue="d=acc+e[batch,n]", e=each)
    near(result, np.matmul(batch.astype(float), other) + each[:, None])
    matrices = np.random.default_rng(5).uniform(-1, 1, (2, M, N)).astype(np.float32)
    near(kiln.matmul(batch, b, epilogue="d=acc*r[m,n]", r=matrices),
         np.matmul(batch.astype(float), b) * matrices)


def test_expressions_that_are_refused(a, b):
    rows = np.ones(M, np.float32)
    with pytest.raises(kiln.BadInput, match="column 3: no function is called foo"):
        kiln.matmul(a, b, epilogue="d=foo(acc)")
    with pytest.raises(TypeError, match="s is not given: the epilogue reads s"):
        kiln.matmul(a, b, epilogue="d=acc*s[m]")
    with pytest.raises(TypeError, match="t is given: the epilogue does not read it"):
        kiln.matmul(a, b, epilogue="d=acc*s[m]", s=rows, t=rows)
    with pytest.raises(kiln.BadInput, match=r"must have shape \(17,\)"):
        kiln.matmul(a, b, epilogue="d=acc*s[m]", s=rows[1:])
    with pytest.raises(kiln.BadInput, match="lines must have adjacent elements"):
        kiln.matmul(a, b, epilogue="d=acc*s[m]", s=np.ones(2 * M, np.float32)[::2])
    with pytest.raises(TypeError, match="the epilogue says float16"):
        kiln.matmul(a, b, epilogue="d=acc*s[m]:fp16", s=rows)
    with pytest.raises(kiln.BadInput, match="must be fp32, fp64, fp16 or bf16"):
        kiln.matmul(a, b, epilogue="d=acc*s[m]", s=rows.astype(np.int8))
    with pytest.raises(TypeError, match="unexpected argument 's'"):
        kiln.matmul(a, b, s=rows)
    with pytest.raises(kiln.Unsupported, match="there is no activation beside it"):
        kiln.matmul(a, b, epilogue="d=acc", activation="relu")


def test_expressions_read_what_they_reduce(a, b):
    from kiln.expressions import exp, logsumexp, max, sum

    product = a.astype(float) @ b
    shares = np.exp(product - product.max(1, keepdims=True))
    shares /= shares.sum(1, keepdims=True)
    near(kiln.matmul(a, b, epilogue="d=exp(acc-logsumexp[m](acc))"), shares)
    near(kiln.matmul(a, b, epilogue=lambda acc: exp(acc - logsumexp(acc))), shares)
    scaled = kiln.matmul(a, b, epilogue=lambda acc: {"d": acc / (max(abs(acc)) / 2), "s": max(abs(acc)) / 2})
    near(scaled["s"], np.abs(product).max(1) / 2)
    near(scaled["d"], product / scaled["s"][:, None])
    near(kiln.matmul(a, b, epilogue=lambda acc: acc - sum(acc, over="m") / M), product - product.mean(0))


def test_expressions_read_blocks_and_neighbours(a, b):
    from kiln.expressions import even, max, odd, pair

    product = a.astype(float) @ b
    angles = np.random.default_rng(6).uniform(-3, 3, (M, (N + 1) // 2)).astype(np.float32)
    c, s = np.cos(angles), np.sin(angles)
    wide = product if N % 2 == 0 else np.concatenate([product, product[:, -1:]], 1)
    x, y = wide[:, ::2], wide[:, 1::2]
    rotated = np.stack([x * c - y * s, x * s + y * c], -1).reshape(M, -1)[:, :N]
    text = "x=even(acc);y=odd(acc);d=pair(x*u[m,n/2]-y*v[m,n/2],x*v[m,n/2]+y*u[m,n/2])"
    near(kiln.matmul(a, b, epilogue=text, u=c, v=s), rotated)

    def rotary(acc, u, v):
        return pair(even(acc) * u - odd(acc) * v, even(acc) * v + odd(acc) * u)

    near(kiln.matmul(a, b, epilogue=rotary, u=c, v=s), rotated)

    def scaled(acc):
        scale = max(abs(acc), block=8) / 448
        return {"d": acc / scale, "scale": scale}

    made = kiln.matmul(a, b, epilogue=scaled)
    scales = np.stack([abs(product[:, i : i + 8]).max(1) / 448 for i in range(0, N, 8)], 1)
    assert made["scale"].shape == scales.shape and made["scale"].dtype == np.float32
    np.testing.assert_allclose(made["scale"], scales, rtol=1e-4)
    near(made["d"] / 448, product / np.repeat(scales, 8, 1)[:, :N] / 448)
    transposed = kiln.matmul(a, b, epilogue="s[n/4,m]=sum(acc)")["s"]
    near(transposed, np.stack([product[:, i : i + 4].sum(1) for i in range(0, N, 4)], 0))
    with pytest.raises(kiln.BadInput, match="must have shape"):
        kiln.matmul(a, b, epilogue="d=acc*u[m,n/3]", u=c)
    with pytest.raises(ValueError, match="blocks are of neighbours over n"):
        kiln.matmul(a, b, epilogue=lambda acc: acc / max(acc, over="m", block=8))


def test_expressions_cast_and_call_functions_that_are_one_row(a, b):
    from kiln.expressions import elu, fp16, leaky_relu, s8, softcap, softplus

    product = kiln.matmul(a, b)
    halves = product.astype("e").astype("f")
    assert np.array_equal(kiln.matmul(a, b, epilogue=lambda acc: fp16(acc)), halves)
    for dtype in ("float16", np.float16, np.dtype("e")):
        assert np.array_equal(kiln.matmul(a, b, epilogue=lambda acc: acc.astype(dtype)), halves)
    near(kiln.matmul(a, b, epilogue=lambda acc: acc - acc.to("float16")), product - halves)
    near(kiln.matmul(a, b, epilogue=lambda acc: s8(acc * 100)), np.rint(np.clip(product * 100, -128, 127)))
    with pytest.raises(TypeError, match="dtype = float64: a cast is to one of bfloat16, float16"):
        kiln.matmul(a, b, epilogue=lambda acc: acc.to("float64"))
    near(kiln.matmul(a, b, epilogue=lambda acc: softplus(acc)), np.log1p(np.exp(product)))
    near(kiln.matmul(a, b, epilogue=lambda acc: softcap(acc, 3)), 3 * np.tanh(product / 3))
    near(kiln.matmul(a, b, epilogue=lambda acc: leaky_relu(acc)), np.where(product > 0, product, product / 100))
    near(kiln.matmul(a, b, epilogue=lambda acc: elu(acc, 2)), np.where(product > 0, product, 2 * np.expm1(product)))
