"""What kiln.torch.compile_pass finds in graphs, and that a graph with kiln's calls computes what it
computed before. Neither Inductor nor a race has a part in it."""

import operator
import random

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch.fx.experimental.proxy_tensor")

import torch.nn.functional as F  # noqa: E402
from fx_graphs import BIAS, R, W, X, aten, check, fuse_all, largest, norm, randn, traced  # noqa: E402

from kiln._fusion import reasons_behind, regions_behind  # noqa: E402
from kiln._fusion_graph import is_product  # noqa: E402
from kiln._fusion_terms import Unsayable  # noqa: E402


def test_bias_gelu_residual():
    epilogues, left = check(lambda x, w, b, r: F.gelu(x @ w.t() + b) + r, X, W, BIAS, R)
    assert epilogues == [
        "t0=acc+b_1[n];d=t0*0.5*(erf(t0*0.7071067811865476)+1)+r_1[m,n]"
    ]
    assert left == ["aten.transpose.int", "kiln.matmul_epilogue.default", "<built-in function getitem>"]


def test_functions_that_nobody_took_apart():
    for approximate, name in (("tanh", "gelu"), ("none", "gelu_erf")):
        epilogues, _ = check(lambda x, w: F.gelu(x @ w, approximate=approximate), X, W.t(), decomposed=False)
        assert epilogues == [f"d={name}(acc)"]
    assert check(lambda x, w: F.silu(x @ w), X, W.t(), decomposed=False)[0] == ["d=silu(acc)"]


def test_squared_relu():
    assert check(lambda x, w: F.relu(x @ w.t()).square(), X, W)[0] == ["t0=relu(acc);d=t0*t0"]


def test_two_outputs():
    def function(x, w):
        y = x @ w.t()
        return y, F.silu(y)

    assert check(function, X, W)[0] == ["d=acc;mul[m,n]:fp32=acc*sigmoid(acc)"]


def test_residual_and_sum_of_squares():
    def function(x, w, r):
        y = x @ w.t() + r
        return y, y.square().sum(-1)

    assert check(function, X, W, R)[0] == ["t0=acc+r_1[m,n];d=t0;sum_1[m]:fp32=sum[m](t0*t0)"]


@pytest.mark.parametrize("shape", [(6,), (2, 3), (2, 1, 3)])
def test_rms_norm(shape):
    epilogues, _ = check(norm, randn(*shape, 5), W, randn(*shape, 4), BIAS)
    assert epilogues == [
        "t0=acc+r_1[m,n];d=t0;mul_1[m,n]:fp32=t0*rsqrt(sum[m](t0*t0)/4+1e-05)*g_1[n]"
    ]


def test_softmax_and_logsumexp():
    assert check(lambda x, w: (x @ w.t()).softmax(-1), X, W)[0] == ["d=exp(acc-logsumexp[m](acc))"]
    assert check(lambda x, w: (x @ w.t()).log_softmax(-1), X, W)[0] == ["d=acc-logsumexp[m](acc)"]
    assert check(lambda x, w: (x @ w.t()).logsumexp(-1), X, W)[0] == ["add[m]:fp32=logsumexp[m](acc)"]
    assert check(lambda x, w: (x @ w.t()).softmax(0), X, W)[0] == ["d=exp(acc-logsumexp[n](acc))"]


def test_reductions():
    def function(x, w):
        y = x @ w.t()
        return y.sum(0), y.amax(1), y.amin((0, 1)), y.abs().mean()

    epilogues, _ = check(function, X, W)
    assert len(epilogues) == 1 and epilogues[0].count("acc") == 4


def test_bias_factors_of_addmm():
    def function(c, x, w):
        return torch.addmm(c, x, w, beta=0.5, alpha=2).tanh()

    assert check(function, R, X, W.t())[0] == ["d=tanh(acc*2+c_1[m,n]*0.5)"]
    assert check(function, BIAS, X, W.t())[0] == ["d=tanh(acc*2+c_1[n]*0.5)"]
    assert check(function, randn(6, 1), X, W.t())[0] == ["d=tanh(acc*2+c_1[m]*0.5)"]


def test_batches():
    a, b = randn(2, 6, 5), randn(2, 5, 4)
    assert check(lambda a, b: torch.bmm(a, b).relu() + 1, a, b)[0] == ["d=relu(acc)+1"]
    epilogues, _ = check(lambda a, b, r: (torch.bmm(a, b) * r).sum(-1), a, b, randn(2, 1, 4))
    assert epilogues == ["sum_1[batch,m]:fp32=sum[m](acc*r_1[batch,n])"]
    assert check(lambda c, a, b: torch.baddbmm(c, a, b).abs(), randn(2, 6, 4), a, b)[0] == [
        "d=abs(acc+c_1[batch,m,n])"
    ]


def gradients(function, count):
    def backward(*tensors):
        inputs = [x.detach().requires_grad_() for x in tensors[:count]]
        return torch.autograd.grad(function(*inputs), inputs, tensors[count])

    return backward


def test_forward_and_backward_of_linear_and_gelu():
    epilogues, left = check(
        gradients(lambda x, w, b: F.gelu(F.linear(x, w, b)), 3), X, W, BIAS, R, decomposed=True
    )
    assert "sum_1[n]:fp32=sum[n](" in epilogues[0]  # the bias's gradient
    assert not any("erf" in name or "sum" in name for name in left)


def test_backward_of_an_activation_in_the_middle():
    """The gradient's product, with what the forward graph kept as an operand."""

    def backward(gradient, w, z):
        return aten.gelu_backward(gradient @ w, z), (gradient @ w).sum(0)

    def swish(gradient, w, gate, up):
        of_both = gradient @ w
        s = torch.sigmoid(gate)
        return of_both * gate * s, of_both * up * s * (1 + gate * (1 - s))

    z = randn(6, 5)
    assert "z_1[m,n]" in check(backward, R, W, z)[0][0]
    epilogues, left = check(swish, R, W, z, randn(6, 5) + 1)
    assert epilogues[0].count("gate_1[m,n]") > 1 and "aten.sigmoid.default" not in left


def mlp(x, gate, up, down):
    return F.linear(F.silu(F.linear(x, gate)) * F.linear(x, up), down) + x


def test_gated_mlp():
    weights = randn(8, 5), randn(8, 5) + 1, randn(5, 8)
    epilogues, left = check(mlp, randn(2, 3, 5), *weights)
    assert epilogues[0].startswith("d=acc*sigmoid(acc)*") and epilogues[2] == "d=acc+x_1[m,n]"
    assert "aten.mul.Tensor" not in left
    check(gradients(mlp, 4), randn(2, 3, 5), *weights, randn(2, 3, 5))


def test_rounding_on_the_way_is_left_out():
    def function(x, w, r):
        y = (x @ w.t()).float() * 0.5
        return (y.to(torch.bfloat16) + r).float().tanh().to(torch.bfloat16)

    epilogues, left = check(function, *(t.to(torch.bfloat16) for t in (X, W, R)), tolerance=2e-2)
    assert epilogues == ["d=tanh(acc*0.5+r_1[m,n])"] and "aten._to_copy.default" not in left


def test_rounding_is_kept_where_elements_are_kept():
    def function(x, w, r, g):
        y = x @ w.t() + r
        z = y.float()
        return (z * torch.rsqrt(z.square().mean(-1, keepdim=True) + 1e-5)).to(x.dtype) * g

    tensors = [t.to(torch.bfloat16) for t in (X, W, R, BIAS)]
    assert check(function, *tensors, tolerance=2e-2)[0] == [
        "t0=bf16(acc+r_1[m,n]);d=t0*rsqrt(sum[m](t0*t0)/4+1e-05)*g_1[n]"
    ]

    def softmax(x, w):
        return (x @ w.t()).float().softmax(-1)

    assert check(softmax, X.to(torch.bfloat16), W.to(torch.bfloat16), tolerance=2e-2)[0] == [
        "t0=bf16(acc);div[m,n]:fp32=exp(t0-logsumexp[m](t0))"
    ]


def test_functions_that_are_one_row():
    def function(x, w):
        y = x @ w
        some = F.softplus(y) + F.hardswish(y) + F.leaky_relu(y, 0.1)
        return some + F.mish(y) + F.elu(y, 0.5) + y.log1p()

    epilogues, left = check(function, X.abs(), W.t().abs(), decomposed=False)
    assert epilogues == [
        "d=softplus(acc)+hardswish(acc)+leaky_relu(acc,0.1)+mish(acc)+elu(acc,0.5)+log1p(acc)"
    ]
    assert left == ["kiln.matmul_epilogue.default", "<built-in function getitem>"]


def test_outputs_have_their_types():
    def function(x, w):
        y = x @ w.t()
        return y.float() * 0.1, y.to(torch.float16).neg(), y.float().square().sum(-1)

    epilogues, _ = check(function, X.to(torch.bfloat16), W.to(torch.bfloat16), tolerance=2e-2)
    assert ":fp32=acc*0.1" in epilogues[0] and ":fp16=-acc" in epilogues[0] and "d=" not in epilogues[0]


def test_what_inductor_computes_where_it_is_read_is_not_stored():
    def function(x, w, r):
        y = x @ w.t()
        return y, (y.tanh() * 2 + r) * torch.ones(3, 6, 4)  # more dimensions than the product

    epilogues, left = check(function, X, W, R)
    assert epilogues == ["d=acc"] and "aten.tanh.default" in left

    def stored(x, w, r):
        y = x @ w.t()
        return y, (y.tanh() * 2 + r).cumsum(0)

    assert check(stored, X, W, R)[0] == ["d=acc;add[m,n]:fp32=tanh(acc)*2+r_1[m,n]"]


def test_smaller_regions_follow():
    module = traced(norm, X, W, R, BIAS)
    nodes = list(module.graph.nodes)
    (at,) = (at for at, node in enumerate(nodes) if is_product(node))
    texts = [region.epilogue for region in regions_behind(nodes, at)]
    assert "rsqrt" in texts[0] and "[m]:fp32=" in texts[1] and texts[2] == "d=acc+r_1[m,n]"


# What a person gets wrong.


def test_square_products_do_not_mix_rows_and_columns():
    x, w, v = randn(5, 5), randn(5, 5) + 1, randn(5)
    assert check(lambda x, w, v: x @ w + v, x, w, v)[0] == ["d=acc+v_1[n]"]
    assert check(lambda x, w, v: x @ w + v[:, None], x, w, v)[0] == ["d=acc+unsqueeze[m]"]
    assert check(lambda x, w, v: x @ w * v[None], x, w, v)[0] == ["d=acc*unsqueeze[n]"]
    assert check(lambda x, w: (x @ w).sum(0, keepdim=True), x, w)[0] == ["sum_1[n]:fp32=sum[n](acc)"]
    assert check(lambda x, w: (x @ w).sum(1, keepdim=True), x, w)[0] == ["sum_1[m]:fp32=sum[m](acc)"]


def test_a_reduced_row_that_meets_columns_stays_outside():
    """[5] of row sums beside [5, 5] is broadcast along the rows: it counts n."""
    x, w = randn(5, 5), randn(5, 5) + 1

    def function(x, w):
        y = x @ w
        return y - y.sum(1)

    epilogues, left = check(function, x, w)
    assert epilogues == ["d=acc;sum_1[m]:fp32=sum[m](acc)"] and "aten.sub.Tensor" in left


def test_one_row_and_one_column():
    for m, n in ((1, 4), (6, 1), (1, 1)):
        x, w, r, b = randn(m, 5), randn(n, 5), randn(m, n), randn(n)
        check(lambda x, w, r, b: ((x @ w.t() + b) * r).relu(), x, w, r, b)
        check(norm, x, w, r, b)
        check(lambda x, w: (x @ w.t()).sum(), x, w)


def test_a_row_vector_with_an_own_dimension():
    assert check(lambda x, w, s: x @ w.t() * s, X, W, randn(6, 1))[0] == ["d=acc*s_1[m]"]
    assert check(lambda x, w, s: x @ w.t() * s, X, W, randn(1, 4))[0] == ["d=acc*s_1[n]"]
    assert check(lambda x, w, s: x @ w.t() * s, X, W, randn(1, 1))[0] == ["d=acc*s_1[]"]
    assert check(lambda x, w, s: x @ w.t() * s, X, W, torch.tensor(0.5))[0] == ["d=acc*s_1[]"]


def test_a_part_of_the_rows_is_no_index():
    """[3, 4] beside [2, 3, 4]: the same for both halves of the rows."""
    epilogues, left = check(lambda x, w, r: (F.linear(x, w) * r).relu(), randn(2, 3, 5), W, randn(3, 4))
    assert epilogues == ["d=acc"] and "aten.mul.Tensor" in left
    epilogues, left = check(lambda x, w: F.linear(x, w).sum(1), randn(2, 3, 5), W)
    assert epilogues == ["d=acc"]
    epilogues, _ = check(lambda x, w: (x @ w.t()).view(6, 2, 2).sum(-1), X, W)  # a part of a row
    assert epilogues == ["d=acc"]


def test_an_operand_with_more_rows_than_the_product():
    epilogues, left = check(lambda x, w, r: x @ w.t() + r, X, W, randn(3, 6, 4))
    assert epilogues == ["d=acc"] and "aten.add.Tensor" in left


def test_an_operand_that_depends_on_the_product():
    def function(x, w, r):
        y = x @ w.t()
        return y.cumsum(0) * y + r  # cumsum is computed outside, and must be first

    epilogues, left = check(function, X, W, R)
    assert epilogues == ["d=acc"] and "aten.mul.Tensor" in left


def test_products_of_each_other():
    def function(x, w):
        y = x @ w.t()
        z = y @ w  # depends on y
        return y.relu(), (z + x) * 2, (y @ w).exp() + z

    epilogues, _ = check(function, X, W)
    assert len(epilogues) == 3 and epilogues[0] == "d=acc;x_relu[m,n]:fp32=relu(acc)"


def test_the_call_follows_operands_that_come_late():
    def function(x, w, r):
        y = x @ w.t()
        early = y.cumsum(0)  # reads the product before the operand exists
        late = r.cumsum(1)
        return y + late, early

    epilogues, left = check(function, X, W, R)
    assert epilogues == ["d=acc;add[m,n]:fp32=acc+cumsum_1[m,n]"]
    assert left.index("kiln.matmul_epilogue.default") < left.index("aten.cumsum.default", 2)


def in_place(x, w, r):
    y = x @ w.t()
    z = y + r
    r.mul_(3)
    return z, y * r


def test_writes_are_not_passed():
    module = traced(in_place, X, W, R.clone())
    assert largest(module.graph)[0].epilogue in ("d=acc;add[m,n]:fp32=acc+r_1[m,n]",)
    fuse_all(module.graph)
    module.recompile()
    mine, other = R.clone(), R.clone()
    for one, two in zip(module(X, W, mine), in_place(X, W, other)):
        torch.testing.assert_close(one, two)
    torch.testing.assert_close(mine, other)


def test_views_of_the_product_are_other_values():
    """Transposed values are not stored, and what is stored lies as it did."""
    epilogues, left = check(lambda x, w: (x @ w.t()).t().relu(), X, W)
    assert epilogues == ["d=acc"] and "aten.relu.default" in left
    epilogues, _ = check(lambda x, w, r: x @ w.t() + r, X, W, randn(4, 6).t())
    assert epilogues in (["d=acc+r_1[m,n]"], ["d=acc"])
    epilogues, _ = check(lambda x, w: F.linear(x, w).view(2, 3, 2, 2).relu(), randn(2, 3, 5), W)
    assert epilogues == ["d=relu(acc)"]


def test_operands_as_they_lie():
    wide = randn(6, 9)[:, 2:6]
    assert check(lambda x, w, r: x @ w.t() + r, X, W, wide)[0] == ["d=acc+r_1[m,n]"]
    every_second = randn(8)[::2]
    epilogues, left = check(lambda x, w, b: (x @ w.t() + b).relu(), X, W, every_second)
    assert epilogues == ["d=acc"] and "aten.add.Tensor" in left
    assert check(lambda x, w: (x @ w.t()).relu(), X[:, ::1].t().clone().t(), W)[0] == ["d=relu(acc)"]
    expanded = BIAS.expand(6, 4)
    assert check(lambda x, w, b: x @ w.t() + b.expand(6, 4), X, W, BIAS)[0] == ["d=acc+b_1[n]"]
    assert check(lambda x, w, r: x @ w.t() + r, X, W, expanded)[0] == ["d=acc"]


def test_operands_of_batches_as_they_lie():
    a, b = randn(2, 6, 5), randn(2, 5, 4)

    def function(a, b, r):
        return torch.bmm(a, b) * r

    for r, wanted in ((randn(2, 6, 4), "batch,m,n"), (randn(2, 4, 6).mT, "batch,m,n"), (randn(6, 4), "m,n"),
                      (randn(2, 6, 1), "batch,m"), (randn(2, 1, 4), "batch,n"), (randn(2, 1, 1), "batch"),
                      (randn(3, 2, 6, 4)[1], "batch,m,n"), (randn(2, 3, 6, 4)[:, 1], None),
                      (randn(6, 2, 4).transpose(0, 1), None), (randn(2, 1, 9)[:, :, :4], None)):  # fmt: skip
        epilogues, _ = check(function, a, b, r)
        assert epilogues == ([f"d=acc*r_1[{wanted}]"] if wanted else ["d=acc"]), r.shape


def test_conditions_stay_inside():
    def inside(x, w, r):
        y = x @ w.t()
        return torch.where(y > r, y, y * 0.1), torch.where(y != y, torch.zeros(()), y)

    assert "where(acc>r_1[m,n],acc,acc*0.1)" in check(inside, X, W, R)[0][0]

    def outside(x, w):
        y = (x @ w.t()).relu()
        return y * 2, y <= 0

    epilogues, left = check(outside, X, W)
    assert epilogues == ["t0=relu(acc);relu[m,n]:fp32=t0;d=t0*2"] or "aten.le.Scalar" in left
    epilogues, left = check(lambda x, w, mask: torch.where(mask, x @ w.t(), 0.0), X, W, R > 0)
    assert epilogues == ["d=acc"] and "aten.where.self" in left


def test_nans():
    x = X.clone()
    x[0, 0] = float("nan")

    def function(x, w):
        y = x @ w.t()
        return torch.where(y != 0, y, 1.0), torch.where(y < 0, y, 2.0), y.clamp(-1, 1), y.relu()

    module = traced(function, x, W)
    fuse_all(module.graph)
    module.recompile()
    for one, other in zip(module(x, W), function(x, W)):
        torch.testing.assert_close(one, other, equal_nan=True)


def test_integers_are_left_alone():
    epilogues, left = check(lambda x, w, i: x @ w.t() + i, X, W, torch.arange(4))
    assert epilogues == ["d=acc"]
    module = traced(lambda x, w: torch.mm(x, w), X.to(torch.int32), W.t().to(torch.int32))
    with pytest.raises(Unsayable, match="D is of type torch.int32"):
        largest(module.graph)


def test_doubles_are_not_rounded():
    epilogues, left = check(lambda x, w: (x @ w.t()).double() / 3, X, W, tolerance=1e-6)
    assert epilogues == ["d=acc"] and "aten.div.Tensor" in left
    epilogues, _ = check(lambda x, w, r: (x @ w.t()) / 3 + r, X.double(), W.double(), R, tolerance=1e-12)
    assert epilogues == ["d=acc/3+r_1[m,n]"]
    epilogues, left = check(lambda x, w, r: (x @ w.t()) * r, X, W, R.double(), tolerance=1e-5)
    assert epilogues == ["d=acc"] and "aten.mul.Tensor" in left


def test_operators_that_the_language_lacks():
    for function in (torch.floor, torch.cos, torch.lgamma, lambda y: y ** 2.5, lambda y: y.cumsum(1)):
        epilogues, left = check(lambda x, w: function((x @ w.t()).abs() + 1), X, W)
        assert epilogues == ["d=abs(acc)+1"] and len(left) > 3


def test_a_second_reduction_stays_outside():
    def variance(x, w):
        y = x @ w.t()
        return (y - y.mean(-1, keepdim=True)).square().sum(-1)

    epilogues, left = check(variance, X, W)
    assert "sum[m](acc)/4" in epilogues[0] and "aten.sum.dim_IntList" in left


def test_layer_norm_stays_outside():
    """mean(x*x)-mean(x)*mean(x) would lose the digits of a row whose mean is large."""
    module = traced(lambda x, w, b, g: F.layer_norm(F.linear(x, w, b), (4,), g, b), X, W, BIAS, BIAS + 1)
    (region,) = largest(module.graph)
    assert region.epilogue == "d=acc+b_1[n]"
    nodes = list(module.graph.nodes)
    (at,) = (at for at, node in enumerate(nodes) if is_product(node))
    assert any("a variance" in reason for reason in reasons_behind(nodes, at))
    check(lambda x, w, b: F.layer_norm(F.linear(x, w, b) + 1e4, (4,)), X, W, BIAS, tolerance=1e-2)


def test_backward_of_layer_norm():
    """Its reductions are not made of each other: what the forward graph kept is an operand."""
    mean, rstd, g = randn(6, 1), randn(6, 1).abs() + 0.5, randn(5)
    tensors = R, W, randn(6, 5), mean, rstd, g

    def whole(weights):
        return lambda d, w, y, mean, rstd, g: aten.native_layer_norm_backward(
            d @ w, y, [5], mean, rstd, g, g, [True, weights, weights]
        )[: 3 if weights else 1]

    epilogues, left = check(whole(False), *tensors)
    x = "(y_1[m,n]-mean_1[m])*rstd_1[m]"
    assert epilogues == [
        f"t0=acc*g_1[n];d=rstd_1[m]/5*(t0*5-sum[m](t0)-{x}*sum[m](t0*({x})))"
    ]
    assert not any("mul" in name or "sum" in name for name in left if "kiln" not in name)
    epilogues, left = check(whole(True), *tensors)
    assert epilogues[0].startswith("t0=acc*g_1[n];d=acc;mul_5[m,n]:fp32=rstd_1[m]/5*")


def test_reduced_rows_meet_an_operand():
    """[6, 1] of row sums and [4] of column sums beside an operand [6, 4] without the product's elements."""
    epilogues, _ = check(lambda x, w, r: (x @ w.t()).sum(1, keepdim=True) * r, X, W, R)
    assert epilogues == ["d=sum[m](acc)*r_1[m,n]"]
    epilogues, _ = check(lambda x, w, r: (x @ w.t()).sum(0) + r, X, W, R)
    assert epilogues == ["d=sum[n](acc)+r_1[m,n]"]
    for turned in (lambda x, w, r: (x @ w.t()).sum(1) * r, lambda x, w, r: (x @ w.t()).sum(0, keepdim=True).t() * r):
        epilogues, left = check(turned, randn(5, 5), randn(5, 5) + 1, randn(5, 5) + 2)
        assert "r_1" not in epilogues[0] and "aten.mul.Tensor" in left
    epilogues, left = check(lambda x, w, r: (x @ w.t()).sum(0) * r, X, W, randn(5, 4))  # not the product's rows
    assert epilogues == ["sum_1[n]:fp32=sum[n](acc)"] and "aten.mul.Tensor" in left


def test_a_limit_of_the_language():
    """Eight operands: the rest is added outside."""

    def function(x, w, *more):
        y = x @ w.t()
        for each in more:
            y = y + each
        return y

    epilogues, left = check(function, X, W, *(randn(6, 4) + i for i in range(10)))
    assert epilogues[0].count("[m,n]") == 8 and left.count("aten.add.Tensor") == 2


def test_many_outputs():
    def function(x, w):
        y = x @ w.t()
        return [y * i for i in range(1, 9)]

    epilogues, left = check(function, X, W)
    assert epilogues[0].count("[m,n]:fp32") == 4 and left.count("aten.mul.Tensor") >= 3


def test_symbolic_sizes():
    module = traced(lambda x, w: (x @ w.t()).relu(), X, W)
    for node in module.graph.nodes:
        if is_product(node):
            node.meta["val"] = None
            with pytest.raises(Unsayable, match="the sizes of D are symbols"):
                largest(module.graph)


def test_names_that_kiln_has_itself():
    def function(x, w, bias, t0, acc, out):
        return ((x @ w.t() + bias) * t0 - acc).relu() + out

    module = traced(function, X, W, BIAS, R, R + 1, R + 2)
    for node in module.graph.nodes:
        if node.op == "placeholder":
            node.name = node.name.rpartition("_")[0]
    fuse_all(module.graph)
    module.recompile()
    tensors = X, W, BIAS, R, R + 1, R + 2
    torch.testing.assert_close(module(*tensors), function(*tensors), rtol=1e-4, atol=1e-4)


def test_softmax_as_inductor_has_it(monkeypatch):
    """A pair of the largest element and the sum, of an operator that PyTorch 1.13 lacks."""

    def pair(x, dim):
        top = x.amax(dim, keepdim=True)
        return top, (x - top).exp().sum(dim, keepdim=True)

    pair.__module__ = "torch._inductor.inductor_prims"  # it writes to nothing
    module = traced(lambda x, w: (x @ w.t()).softmax(-1), X, W)
    graph = module.graph
    by_name = {node.name: node for node in graph.nodes}
    with graph.inserting_before(by_name["amax"]):
        both = graph.call_function(pair, (by_name["mm"], -1))
        parts = [graph.call_function(operator.getitem, (both, place)) for place in (0, 1)]
    for part, name in zip(parts, ("amax", "sum_1")):
        part.meta = dict(by_name[name].meta)
        by_name[name].replace_all_uses_with(part)
    graph.eliminate_dead_code()
    assert largest(graph)[0].epilogue == "d=acc"  # nobody knows the function
    monkeypatch.setattr("kiln._fusion_growth._SOFTMAX", str(pair))
    assert fuse_all(graph) == ["d=exp(acc-logsumexp[m](acc))"]
    module.recompile()
    torch.testing.assert_close(module(X, W), (X @ W.t()).softmax(-1))


class RandomFunction:
    """Operators behind a product, drawn by a seed: the same each time that it is called."""

    def __init__(self, seed):
        draw = random.Random(seed)
        self.seed, self.m, self.n, self.steps = seed, draw.choice([1, 5, 6]), draw.choice([1, 5, 4]), 7

    def tensors(self):
        m, n = self.m, self.n
        shapes = (m, 3), (3, n), (m, n), (n,), (m, 1), (1, n), (), (n, m), (m, m)
        return [randn(*shape) + 0.1 * i for i, shape in enumerate(shapes)]

    def __call__(self, a, b, *operands):
        draw = random.Random(self.seed)
        values = [a @ b]
        for _ in range(self.steps):
            x = draw.choice(values[-3:])
            kind = draw.choice(["one", "one", "two", "two", "two", "reduce", "where", "view", "odd"])
            if kind == "one":
                made = draw.choice([torch.relu, torch.tanh, torch.sigmoid, torch.neg, torch.abs,
                                    lambda t: t.clamp(-1, 0.5), lambda t: 1 - 2 * t])(x)  # fmt: skip
            elif kind == "two":
                y = draw.choice([*values, *operands, *(t.tanh() for t in operands)])
                made = draw.choice([torch.add, torch.mul, torch.maximum, torch.sub])(*draw.sample([x, y], 2)) \
                    if self._broadcasts(x, y) else x * 0.5  # fmt: skip
            elif kind == "reduce":
                dim = draw.choice([0, -1, (0, -1)]) if x.dim() == 2 else ()
                keeps = draw.choice([True, False])
                made = draw.choice([torch.sum, torch.amax, torch.mean])(x, dim, keeps) if dim != () else x + 1
            elif kind == "where":
                made = torch.where(x > 0.1, x, x * 0.3)
            elif kind == "view":
                made = draw.choice([lambda t: t.unsqueeze(0), lambda t: t.t() if t.dim() == 2 else t.neg(),
                                    lambda t: t.reshape(-1)])(x) if x.dim() < 3 else x + 1  # fmt: skip
            else:
                made = torch.cumsum(x, 0) if x.dim() else x.cos()
            values.append(made)
        kept = [draw.choice(values) for _ in range(2)]
        return [values[-1] + 0.5, *(x * 2 for x in kept)]

    @staticmethod
    def _broadcasts(x, y):
        pairs = zip(reversed(x.shape), reversed(y.shape))
        return all(i == j or 1 in (i, j) for i, j in pairs) and max(x.dim(), y.dim()) < 4


@pytest.mark.parametrize("first", range(0, 100, 20))
def test_random_graphs(first):
    fused = 0
    for seed in range(first, first + 20):
        function = RandomFunction(seed)
        try:
            epilogues, _ = check(function, *function.tensors(), tolerance=2e-3)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        fused += any(text != "d=acc" for text in epilogues)
    assert fused > 10
