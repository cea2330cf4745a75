"""Products of codes with scales, as the pass finds them in graphs, and results that are codes. The operator
and its types are those of scaled_products.py; test_compile_pass_gpu.py has PyTorch's own."""

import random

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch.fx.experimental.proxy_tensor")

import torch.nn.functional as F  # noqa: E402
from fx_graphs import check, fuse_all, largest, randn, traced  # noqa: E402
from scaled_products import codes, known, scaled_mm, scales  # noqa: E402

from kiln import _race  # noqa: E402
from kiln._fusion import regions_behind  # noqa: E402
from kiln._fusion_graph import is_product  # noqa: E402
from kiln._fusion_terms import Unsayable  # noqa: E402
from kiln._race_graphs import contest_of  # noqa: E402
from kiln.compile_pass import CompilePass, _arguments  # noqa: E402

M, N, K = 6, 5, 40
A, B = codes(M, K), codes(N, K).t()
ONE, OTHER = scales(1)[0], scales(2)[1]
ROWS, COLUMNS = scales(M, 1), scales(1, N)
BIAS = randn(N, dtype=torch.bfloat16)


@pytest.fixture(autouse=True)
def as_codes():
    with known():
        yield


def product(a, b, scale_a, scale_b, bias=None, dtype=torch.bfloat16, fast=False):
    return scaled_mm(a, b, scale_a, scale_b, bias, None, dtype, fast)


def calls(module):
    return [x for x in module.graph.nodes if "matmul_epilogue" in str(x.target)]


def test_scales_of_tensors():
    def function(a, b, sa, sb, bias):
        return F.gelu(product(a, b, sa, sb, bias), approximate="tanh")

    epilogues, left = check(function, A, B, ONE, OTHER, BIAS, decomposed=False, tolerance=2e-2)
    assert epilogues == ["d=gelu(acc*sa_1[]*sb_1[]+bias_1[n])"]
    assert left == ["kiln.matmul_epilogue.default", "<built-in function getitem>"]
    check(function, A, B, ONE.view(1), OTHER.view(1, 1), BIAS, decomposed=False, tolerance=2e-2)


def test_scales_of_rows_and_columns():
    def function(a, b, sa, sb, gate):
        return F.silu(product(a, b, sa, sb, dtype=torch.float32)) * gate

    epilogues, _ = check(function, A, B, ROWS, COLUMNS, randn(M, N), decomposed=False)
    assert epilogues == ["d=silu(acc*sa_1[m]*sb_1[n])*gate_1[m,n]"]
    assert check(function, A, B, ONE, COLUMNS, randn(M, N), decomposed=False)[0] == [
        "d=silu(acc*sa_1[]*sb_1[n])*gate_1[m,n]"
    ]


def test_as_many_rows_as_columns_and_one_of_either():
    for m, n in ((N, N), (1, N), (M, 1), (1, 1)):
        epilogues, _ = check(
            lambda a, b, sa, sb: product(a, b, sa, sb, dtype=torch.float32).relu(),
            codes(m, K), codes(n, K).t(), scales(m, 1), scales(1, n),
        )  # fmt: skip
        one, other = "[m]" if m > 1 else "[]", "[n]" if n > 1 else "[]"
        assert epilogues == [f"d=relu(acc*sa_1{one}*sb_1{other})"]


def test_scales_that_the_graph_computes():
    def function(a, b, amax, sb):
        return product(a, b, amax.clamp(min=1e-6) / 100, sb, dtype=torch.float32) + 1

    epilogues, _ = check(function, A, B, ROWS, COLUMNS)
    assert epilogues == ["d=acc*(max(amax_1[m],1e-06)/100)*sb_1[n]+1"]


def test_types_of_d():
    for dtype, tolerance in ((torch.float16, 2e-3), (torch.bfloat16, 2e-2), (torch.float32, 1e-5)):
        module = traced(lambda a, b, s, t: product(a, b, s, t, dtype=dtype) * 2, A, B, ROWS, COLUMNS)
        assert fuse_all(module.graph) == ["d=acc*s_1[m]*t_1[n]*2"]
        (call,) = calls(module)
        assert call.kwargs == {"out_dtype": dtype}
        module.recompile()
        wanted = product(A, B, ROWS, COLUMNS, dtype=dtype) * 2
        torch.testing.assert_close(module(A, B, ROWS, COLUMNS), wanted, rtol=tolerance, atol=tolerance)


def test_fast_accumulation():
    module = traced(lambda a, b, s, t: product(a, b, s, t, fast=True).relu(), A, B, ROWS, COLUMNS)
    (region,) = largest(module.graph)
    assert region.numerics == "fast"
    fuse_all(module.graph)
    assert calls(module)[0].kwargs == {"out_dtype": torch.bfloat16, "numerics": "fast"}


def quantised(y, largest_code=127):
    scale = y.abs().amax(-1, keepdim=True).float() / largest_code
    return (y.float() / scale).round().clamp(-127, 127).to(torch.int8), scale


def test_codes_with_the_scale_of_each_row():
    def function(a, b, sa, sb):
        return quantised(F.relu(product(a, b, sa, sb, dtype=torch.float32)) + 0.1)

    epilogues, left = check(function, A, B, ROWS, COLUMNS)
    assert epilogues == [
        "t0=relu(acc*sa_1[m]*sb_1[n])+0.1;t1=max[m](abs(t0))/127;div[m]:fp32=t1;d=clamp(round(t0/t1),-127,127)"
    ]
    assert not any(x in name for name in left for x in ("amax", "div", "clamp", "_to_copy"))


def test_codes_behind_a_plain_product():
    x, w = randn(M, 8), randn(N, 8)

    def function(x, w, s):
        y = (x @ w.t()).tanh()
        return y, (y * s).round().clamp(-127, 127).to(torch.int8)

    module = traced(function, x, w, torch.tensor(50.0))
    assert fuse_all(module.graph) == ["t0=tanh(acc);x_tanh[m,n]:fp32=t0;d=clamp(round(t0*s_1[]),-127,127)"]
    assert calls(module)[0].kwargs == {"out_dtype": torch.int8}
    check(function, x, w, torch.tensor(50.0))


def test_what_reads_codes_stays_outside():
    """They are rounded when they are stored."""

    def function(a, b, sa, sb):
        q, s = quantised(product(a, b, sa, sb, dtype=torch.float32))
        return q, q.float() * s, q.view(N, M)

    epilogues, left = check(function, A, B, ROWS, COLUMNS)
    assert epilogues[0].count("clamp") == 1 and "aten.mul.Tensor" in left


def test_one_output_of_eight_bits():
    def function(a, b, sa, sb):
        y = product(a, b, sa, sb, dtype=torch.float32)
        return tuple((y * i).round().clamp(-127, 127).to(torch.int8) for i in (20, 30))

    epilogues, left = check(function, A, B, ROWS, COLUMNS)
    assert epilogues[0].count("clamp") == 3 and left.count("aten._to_copy.default") == 1


def test_a_vector_of_codes_is_not_stored():
    def function(a, b, sa, sb):
        return product(a, b, sa, sb, dtype=torch.float32).sum(-1).round().clamp(-9, 9).to(torch.int8)

    epilogues, left = check(function, A, B, ROWS, COLUMNS)
    assert epilogues == ["x_clamp[m]:fp32=clamp(round(sum[m](acc*sa_1[m]*sb_1[n])),-9,9)"]
    assert "aten._to_copy.default" in left


def test_codes_of_doubles_stay_outside():
    module = traced(lambda x, w: (x @ w).round().to(torch.int8), randn(M, 8).double(), randn(8, N).double())
    assert fuse_all(module.graph) == ["d=round(acc)"]


def blocks(scale_a, scale_b, k=512, m=256, n=384):
    module = traced(
        lambda a, b, s, t: product(a, b, s, t, dtype=torch.float32).relu(),
        codes(m, k), codes(n, k).t(), scale_a, scale_b,
    )  # fmt: skip
    (region,) = largest(module.graph)
    return module, region


@pytest.mark.parametrize("scale_a", [scales(4, 256).t(), scales(256, 4), scales(2, 4)])
@pytest.mark.parametrize("scale_b", [scales(4, 384), scales(384, 4).t(), scales(3, 4).t()])
def test_scales_of_blocks(scale_a, scale_b):
    """They are scales of the problem: of B the lines come first there."""
    module, region = blocks(scale_a, scale_b)
    assert region.epilogue == "d=relu(acc)" and not region.operands
    a, b, named = _arguments(region)
    assert named["scale_a"].stride() == scale_a.stride() and named["scale_b"].shape == scale_b.t().shape
    fuse_all(module.graph)
    (call,) = calls(module)
    given = [call.kwargs[x].meta["val"] for x in ("scale_a", "scale_b")]
    assert [x.shape for x in given] == [scale_a.shape, scale_b.t().shape]
    assert [x.stride() for x in given] == [scale_a.stride(), scale_b.t().stride()]


def test_blocks_of_one_operand():
    _, region = blocks(scales(256, 1), scales(3, 4).t())
    assert region.epilogue == "d=relu(acc*s_1[m])" and region.scale_a is None and region.scale_b is not None
    _, region = blocks(scales(256, 1), scales(1, 384), k=100)  # a line has one block
    assert region.epilogue == "d=relu(acc*s_1[m]*t_1[n])"


def refused(words, function, *tensors):
    module = traced(function, *tensors)
    nodes = list(module.graph.nodes)
    (at,) = (at for at, node in enumerate(nodes) if is_product(node))
    with pytest.raises(Unsayable, match=words):
        regions_behind(nodes, at)


def test_what_is_left_alone():
    function = lambda a, b, s, t: product(a, b, s, t).relu()  # noqa: E731
    refused("B does not lie along k: its strides", function, A, codes(K, N), ROWS, COLUMNS)
    refused("A does not lie along k", function, codes(K, M).t(), B, ROWS, COLUMNS)
    refused("scale_a with shape", function, A, B, scales(M), COLUMNS)
    refused("scale_b with shape", function, A, B, ROWS, scales(1, N - 1))
    refused("scale_a is not of fp32", function, A, B, ROWS.half(), COLUMNS)
    padded = torch.zeros(8, 4)[:, :3].t()  # squares whose lines are 4 apart
    big = codes(256, 384), codes(1024, 384).t(), ONE, padded
    refused(r"scale_b with shape \(8, 3\) and strides \(4, 1\)", function, *big)
    refused("scale_result", lambda a, b, s, t: scaled_mm(a, b, s, t, None, s, torch.bfloat16), A, B, ONE, ONE)
    refused("D is of type torch.int8", lambda a, b, s, t: scaled_mm(a, b, s, t), A, B, ONE, ONE)
    refused("A is of type torch.float32", lambda a, b, s, t: product(a, b, s, t), A.float(), B, ONE, ONE)


def test_the_race_has_scales_near_one():
    module = traced(lambda a, b, s, t, r: product(a, b, s, t).relu() + r, A, B, ROWS, COLUMNS,
                    randn(M, N))  # fmt: skip
    contest = contest_of(module.graph, largest(module.graph)[0])
    assert len(contest.scales) == 2
    made = _race.operands_of(contest.inputs, scales=contest.scales)
    assert all(float(made[place].min()) >= 0.5 for place in contest.scales)
    assert all(float(x.float().min()) < 0 for place, x in enumerate(made) if place not in (1, *contest.scales))


def test_a_whole_race(monkeypatch):
    monkeypatch.setattr(_race, "compiled_by_inductor", lambda module, operands: module)
    fused = CompilePass(bare=False, margin=0.0, tune_seconds=0, races=":memory:", cudagraphs=False)
    tensors = A, B, ROWS, COLUMNS, randn(M, N, dtype=torch.bfloat16)
    function = lambda a, b, s, t, r: quantised(product(a, b, s, t) + r)  # noqa: E731
    module = traced(function, *tensors)
    fused(module.graph)
    assert fused.report[0].kiln_us > 0 and fused.report[0].shape == (M, N, K), str(fused.report[0])
    module.recompile()
    for one, other in zip(module(*tensors), function(*tensors)):
        torch.testing.assert_close(one.float(), other.float(), rtol=2e-2, atol=1)


def test_codes_may_differ_by_a_rounding():
    one = torch.full((64, 64), 64, dtype=torch.int8)
    other = one.clone()
    other[::8, ::8] += 8  # the next e4m3
    assert _race._disagreement([one], [other], 1e-3) == ""
    other[::2] += 8
    assert "differs by" in _race._disagreement([one], [other], 1e-3)


class RandomScaled:
    """A scaled product and what follows it, drawn by a seed: the same each time that it is called."""

    def __init__(self, seed):
        draw = random.Random(seed)
        self.seed = seed
        self.m, self.n, self.k = draw.choice([1, 4, 7]), draw.choice([1, 4, 9]), draw.choice([8, 130])
        self.dtype = draw.choice([torch.float32, torch.bfloat16])
        self.of_rows, self.of_columns, self.has_bias, self.ends_in_codes = (draw.random() < 0.6 for _ in range(4))

    def tensors(self):
        m, n, k = self.m, self.n, self.k
        shape_a, shape_b = (m, 1) if self.of_rows else (), (1, n) if self.of_columns else ()
        bias = randn(n, dtype=torch.bfloat16)
        return codes(m, k), codes(n, k).t(), scales(*shape_a), scales(*shape_b), bias, randn(m, n), randn(m, 1)

    def __call__(self, a, b, scale_a, scale_b, bias, matrix, rows):
        draw = random.Random(self.seed + 1)
        y = product(a, b, scale_a, scale_b, bias if self.has_bias else None, self.dtype)
        for _ in range(draw.randrange(4)):
            y = draw.choice([lambda t: t.relu(), lambda t: t * matrix, lambda t: t.float() + rows,
                             lambda t: t.sigmoid() * t, lambda t: t / (1 + t.abs().amax(-1, keepdim=True)),
                             lambda t: t - t.float().mean(-1, keepdim=True)])(y)  # fmt: skip
        if not self.ends_in_codes:
            return y, y.float().abs().sum(0)
        q, s = quantised(y.float() + 3)
        return q, s, y


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_drawn_products(first):
    with_codes = 0
    for seed in range(first, first + 20):
        function = RandomScaled(seed)
        tensors = function.tensors()
        wanted = function(*tensors)
        for which in (2, 1, 0):
            module = traced(function, *tensors)
            epilogues = fuse_all(module.graph, which)
            module.recompile()
            for one, other in zip(module(*tensors), wanted):
                assert one.dtype == other.dtype and one.stride() == other.stride()
                tolerance = 1.01 if one.dtype == torch.int8 else 2e-3 if function.dtype == torch.float32 else 4e-2
                torch.testing.assert_close(
                    one.double(), other.double(), rtol=tolerance, atol=tolerance,
                    msg=lambda said: f"seed {seed}, {epilogues}: {said}",
                )  # fmt: skip
        with_codes += "d=clamp(round(" in epilogues[0]
    assert with_codes > 3
