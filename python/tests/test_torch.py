"""kiln.torch against PyTorch, where it is installed."""

import doctest

import pytest

torch = pytest.importorskip("torch")

import kiln  # noqa: E402
import kiln.torch as kt  # noqa: E402

DOUBLE = {"dtype": torch.float64, "requires_grad": True}


def test_examples():
    failed, tried = doctest.testmod(kt)
    assert tried > 3 and failed == 0


@pytest.mark.parametrize("a_shape, b_shape", [((4, 5), (5, 3)), ((2, 4, 5), (2, 5, 3)),
                                              ((2, 4, 5), (5, 3)), ((1, 4, 5), (5, 3)),
                                              ((4, 5), (1, 5, 3))])  # fmt: skip
def test_gradients_of_matmul(a_shape, b_shape):
    a, b = torch.randn(a_shape, **DOUBLE), torch.randn(b_shape, **DOUBLE)
    torch.testing.assert_close(kt.matmul(a, b), a @ b)
    assert torch.autograd.gradcheck(kt.matmul, (a, b))
    assert torch.autograd.gradgradcheck(kt.matmul, (a, b))
    only_b = torch.randn(a_shape, dtype=torch.float64)
    assert torch.autograd.gradcheck(kt.matmul, (only_b, b))


@pytest.mark.parametrize("activation", ["none", "relu", "gelu", "gelu_erf", "silu"])
@pytest.mark.parametrize("shape", [(6, 5), (2, 3, 5), (5,)])
def test_linear(activation, shape):
    x, w, bias = torch.randn(shape, **DOUBLE), torch.randn(4, 5, **DOUBLE), torch.randn(4, **DOUBLE)
    with torch.no_grad():  # in one product
        plain = kt.linear(x, w, bias, activation)
    expected = kt._ACTIVATIONS[activation](torch.nn.functional.linear(x, w, bias))
    torch.testing.assert_close(plain, expected.detach())
    torch.testing.assert_close(kt.linear(x, w, bias, activation), expected)
    assert torch.autograd.gradcheck(lambda *t: kt.linear(*t, activation), (x, w, bias))


def test_operators_have_gradients():
    a, b = torch.randn(4, 5, **DOUBLE), torch.randn(5, 3, **DOUBLE)
    assert torch.autograd.gradcheck(torch.ops.kiln.matmul, (a, b))
    x, w = torch.randn(4, 5, **DOUBLE), torch.randn(3, 5, **DOUBLE)
    assert torch.autograd.gradcheck(lambda x, w: torch.ops.kiln.linear(x, w, None, "none"), (x, w))
    with pytest.raises(ValueError, match="activation = 'relu'"):
        torch.ops.kiln.linear(x, w, None, "relu")


def test_a_model_is_patched_in_place():
    torch.manual_seed(1)
    model = torch.nn.Sequential(
        torch.nn.Linear(5, 7), torch.nn.GELU(), torch.nn.ModuleDict({"last": torch.nn.Linear(7, 2)})
    )
    x, before = torch.randn(3, 5), {name: value.clone() for name, value in model.state_dict().items()}
    wanted = model[2]["last"](model[1](model[0](x)))
    assert kt.patch(model, lambda name, module: module.out_features == 2) == ["2.last"]
    assert kt.patch(model) == ["0"] and kt.patch(model) == []
    got = model[2]["last"](model[1](model[0](x)))
    torch.testing.assert_close(got, wanted)
    got.sum().backward()
    assert model[0].weight.grad is not None
    assert model.state_dict().keys() == before.keys()
    one = torch.nn.Linear(5, 2)
    assert kt.patch(one) == [""] and isinstance(one, kt.Linear)


def test_linear_module():
    module = kt.Linear(5, 3, bias=False, activation="silu")
    x = torch.randn(2, 5)
    torch.testing.assert_close(module(x), torch.nn.functional.silu(x @ module.weight.T))
    assert "activation=silu" in repr(module)
    with pytest.raises(ValueError, match="activation = 'tanh'"):
        kt.Linear(5, 3, activation="tanh")


def test_opcheck():
    """Where PyTorch has it (2.4)."""
    if not hasattr(torch.library, "opcheck"):
        pytest.skip("this PyTorch has no opcheck")
    for grad in (False, True):
        x, w, bias = (torch.randn(*s, requires_grad=grad) for s in ((4, 8), (6, 8), (6,)))
        torch.library.opcheck(torch.ops.kiln.linear.default, (x, w, bias, "none"))
        torch.library.opcheck(torch.ops.kiln.matmul.default, (x, w.T))
    with torch.no_grad():
        torch.library.opcheck(torch.ops.kiln.linear.default, (x, w, bias, "relu"))


def test_gradient_of_a_sum():
    x, w = torch.randn(6, 5, **DOUBLE), torch.randn(5, 4, **DOUBLE)
    kt.matmul(x, w).sum().backward()
    torch.testing.assert_close(x.grad, torch.ones(6, 4, dtype=torch.float64) @ w.detach().T)


def test_bfloat16_trains():
    torch.manual_seed(1)
    w = torch.zeros(4, 8, dtype=torch.bfloat16, requires_grad=True)
    x = torch.randn(64, 8, dtype=torch.bfloat16)
    aim = x @ torch.randn(8, 4, dtype=torch.bfloat16)
    losses = []
    for _ in range(30):
        loss = (kt.linear(x, w) - aim).float().square().mean()
        loss.backward()
        losses.append(loss.item())
        w.data -= 0.5 * w.grad
        w.grad = None
    assert losses[-1] < losses[0] / 50


def test_epilogues():
    x, w, bias = torch.randn(6, 5), torch.randn(5, 4), torch.randn(4)
    product, residual = x @ w, torch.randn(6, 4)
    made = kt.matmul_epilogue(x, w, "d=relu(acc+b[n])+r[m,n]", b=bias, r=residual)
    torch.testing.assert_close(made, torch.relu(product + bias) + residual)
    made = kt.matmul_epilogue(x, w, "z[n,m]:fp64=acc;d=acc+1;q[m]=sum(acc*acc)")
    assert list(made) == ["d", "z", "q"] and made["z"].dtype == torch.float64
    torch.testing.assert_close(made["d"], product + 1)
    torch.testing.assert_close(made["z"], product.T.double(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(made["q"], (product * product).sum(1))
    # Numbers, beside tensors in any order, and a tensor of one element.
    made = kt.matmul_epilogue(x, w, "d=acc*s[]:host+b[n]*t[]", s=0.5, b=bias, t=2)
    torch.testing.assert_close(made, product / 2 + bias * 2)
    made = kt.matmul_epilogue(x, w, "d=acc*s[]:host", s=torch.tensor(0.5))
    torch.testing.assert_close(made, product / 2)
    alone = kt.matmul_epilogue(x, w, "l[m]=logsumexp(acc)")
    torch.testing.assert_close(alone["l"], torch.logsumexp(product, 1))
    gate = kt.matmul_epilogue(x, w, "d=silu(acc0)*acc1")
    torch.testing.assert_close(gate, torch.nn.functional.silu(product[:, :2]) * product[:, 2:])
    with pytest.raises(RuntimeError, match="has no gradient"):
        kt.matmul_epilogue(x.requires_grad_(), w, "d=relu(acc)")
    with torch.no_grad():
        torch.testing.assert_close(kt.matmul_epilogue(x, w, "d=relu(acc)"), torch.relu(product))


def test_an_epilogue_of_codes_with_scales():
    generator = torch.Generator().manual_seed(5)
    a, b = (torch.randint(-9, 10, s, generator=generator, dtype=torch.int8) for s in ((6, 40), (40, 5)))
    rows, columns = torch.rand(6, generator=generator) + 0.1, torch.rand(5, generator=generator) + 0.1
    scaled = (a.double() * rows.double()[:, None]) @ (b.double() * columns.double())
    for dtype in (torch.bfloat16, torch.float32):
        made = kt.matmul_epilogue(a, b, "d=relu(acc)", out_dtype=dtype, scale_a=rows, scale_b=columns)
        assert made.dtype == dtype
        torch.testing.assert_close(made.double(), scaled.relu(), rtol=1e-2, atol=1e-5)
        in_text = kt.matmul_epilogue(a, b, "d=relu(acc*s[m]*t[n])", out_dtype=dtype, s=rows, t=columns)
        torch.testing.assert_close(made, in_text, rtol=1e-2, atol=1e-5)
    made = kt.matmul_epilogue(a, b, "s[m]=max(abs(acc))/127;d=acc/s[m]", out_dtype=torch.int8)
    largest = (a.double() @ b.double()).abs().amax(1) / 127
    torch.testing.assert_close(made["s"].double(), largest, rtol=1e-5, atol=0)
    assert made["d"].dtype == torch.int8 and int(made["d"].abs().max()) == 127
    with pytest.raises(kiln.Error, match="numerics = fast"):
        kt.matmul_epilogue(a, b, "d=acc", numerics="fast")
    with pytest.raises(RuntimeError, match="has no gradient"):
        kt.matmul_epilogue(a, b, "d=relu(acc)", out_dtype=torch.float32, scale_a=rows.requires_grad_(),
                           scale_b=columns)  # fmt: skip


def test_shapes_without_data():
    """As torch.compile asks for them."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        a, b = torch.empty(3, 8, dtype=torch.bfloat16), torch.empty(8, 4, dtype=torch.bfloat16)
        made = kt.matmul_epilogue(a, b, "z[n,m]=acc;h[m,n]:fp32=acc;d=acc;q[m]=sum(acc);e[]=max(acc)")
        types = {name: (tuple(t.shape), t.dtype) for name, t in made.items()}
        assert types == {"d": ((3, 4), torch.bfloat16), "z": ((4, 3), torch.bfloat16),
                         "h": ((3, 4), torch.float32), "q": ((3,), torch.float32),
                         "e": ((), torch.float32)}  # fmt: skip
        made = kt.matmul_epilogue(a, b, "d=silu(acc0)*acc1;q[n]=sum(acc0)")
        assert made["d"].shape == (3, 2) and made["q"].shape == (2,)
        made = kt.matmul_epilogue(a.to(torch.int8), b.to(torch.int8), "d=acc;q[m,n]=acc")
        assert (made["d"].dtype, made["q"].dtype) == (torch.int32, torch.float32)
        made = kt.matmul_epilogue(a, b, "d=acc*s[];q[m,n]=acc", out_dtype=torch.int8, s=torch.empty(()))
        assert (made["d"].dtype, made["q"].dtype) == (torch.int8, torch.float32)

    with FakeTensorMode():
        x, w = torch.empty(2, 3, 8), torch.empty(4, 8)
        assert torch.ops.kiln.linear(x, w, None, "relu").shape == (2, 3, 4)
        assert torch.ops.kiln.matmul(x, w.T).shape == (2, 3, 4)
