"""kiln.torch.compile_pass with PyTorch 2's Inductor on an NVIDIA GPU. A program too, for machines without
pytest: it prints what was fused."""

import sys

try:
    import pytest
except ImportError:
    pytest = None
    import torch
else:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available() or not hasattr(torch, "compile"):
        pytest.skip("PyTorch 2 sees no GPU", allow_module_level=True)

import torch.nn.functional as F  # noqa: E402

import kiln.torch as kt  # noqa: E402
from kiln import compile_pass as kcp  # noqa: E402
from kiln._races import Result  # noqa: E402


class Always(kcp.CompilePass):
    """Takes the largest region whose outputs agree with Inductor's, however long it takes."""

    def _raced(self, contest, region):
        result = super()._raced(contest, region)
        print(f"{region.epilogue}: kiln {result.kiln_us:.1f} us, Inductor {result.inductor_us:.1f} us")
        return Result(1.0, 100.0 + len(region.epilogue), 1.0, result.disagreement)


def taken_always():
    return Always(bare=False, margin=0.0, tune_seconds=0.0, races=":memory:", cudagraphs=True)


def tensors(*shapes, dtype=torch.bfloat16, grad=False):
    generator = torch.Generator("cuda").manual_seed(1)
    made = [torch.randn(*s, device="cuda", generator=generator).to(dtype) for s in shapes]
    return [x.requires_grad_(grad) for x in made]


def near(one, other, tolerance=2e-2):
    assert one.dtype == other.dtype and one.shape == other.shape
    if one.dtype == torch.float8_e4m3fn:  # a rounding before them decides between two neighbours
        tolerance = 4e-2
    error = (one.float() - other.float()).norm() / other.float().norm()
    assert error < tolerance, float(error)


def compiled(function, *arguments, fuse):
    """What the function returns when it is compiled, without and within the pass."""
    torch._dynamo.reset()
    with torch._inductor.config.patch(fx_graph_cache=False), fuse:
        return torch.compile(function, dynamic=False)(*arguments)


def check(function, *arguments, wanted=1):
    fused = taken_always()
    made = compiled(function, *arguments, fuse=fused)
    expected = function(*arguments)
    for one, other in zip(*(x if isinstance(x, tuple) else (x,) for x in (made, expected))):
        near(one, other)
    print(*fused.report, sep="\n")
    chosen = [entry for entry in fused.report if entry.chosen]
    assert len(chosen) == wanted, [str(entry) for entry in fused.report]
    return [entry.epilogue for entry in chosen]


def test_epilogues():
    x, w, r, b = tensors((256, 512), (1024, 512), (256, 1024), (1024,))
    with torch.no_grad():
        check(lambda x, w, b, r: F.gelu(F.linear(x, w, b), approximate="tanh") + r, x, w * 0.05, b, r)
        check(lambda x, w: F.relu(x @ w.t()).square(), x, w * 0.05)
        check(lambda x, w: torch.logsumexp((x @ w.t()).float(), -1), x, w * 0.05)

        def two(x, w, r):
            y = x @ w.t() + r
            return y, y.float().square().sum(-1)

        (epilogue,) = check(two, x, w * 0.05, r)
        assert "sum[m]" in epilogue


def test_norms_of_three_dimensions():
    x, w, r, g = tensors((2, 128, 512), (1024, 512), (2, 128, 1024), (1024,))

    def norm(x, w, r, g):
        y = F.linear(x, w) + r
        return y, F.rms_norm(y, (1024,), g)

    with torch.no_grad():
        check(norm, x, w * 0.05, r, g)


def test_softmax():
    x, w = tensors((256, 512), (1024, 512))
    with torch.no_grad():
        (epilogue,) = check(lambda x, w: (x @ w.t()).float().softmax(-1), x, w * 0.05)
    assert "logsumexp[m](acc)" in epilogue


def test_batches():
    a, b, r = tensors((4, 128, 256), (4, 256, 128), (4, 128, 128))
    with torch.no_grad():
        check(lambda a, b, r: (torch.bmm(a, b) * 0.06).tanh() * r, a, b, r)


def as_codes(x, dim=None, dtype=torch.float8_e4m3fn):
    """Codes of x and the scale of all of it, or of each row ([m, 1])."""
    largest = x.abs().amax() if dim is None else x.abs().amax(dim, keepdim=True)
    scale = largest.float().clamp(min=1e-12) / torch.finfo(dtype).max
    limit = torch.finfo(dtype).max
    return (x.float() / scale).clamp(-limit, limit).to(dtype), scale


def scaled_operands(dim=None, m=256, n=1024, k=512, types=(torch.float8_e4m3fn, torch.float8_e4m3fn)):
    """A [m, k] and W [n, k] with their scales, and a bias."""
    x, w, bias = tensors((m, k), (n, k), (n,))
    return *as_codes(x, dim, types[0]), *as_codes(w * 0.05, dim, types[1]), bias


def test_scaled_mm_with_scales_of_tensors():
    for fast in (False, True):

        def function(a, sa, w, sw, bias, fast=fast):
            y = torch._scaled_mm(a, w.t(), sa, sw, bias=bias, out_dtype=torch.bfloat16, use_fast_accum=fast)
            return F.gelu(y, approximate="tanh")

        (epilogue,) = check(function, *scaled_operands())
        assert "[]" in epilogue and "[n]" in epilogue
    types = torch.float8_e5m2, torch.float8_e4m3fn
    check(lambda a, sa, w, sw, _: torch._scaled_mm(a, w.t(), sa, sw, out_dtype=torch.bfloat16).relu(),
          *scaled_operands(types=types))  # fmt: skip


def test_scaled_mm_with_scales_of_rows_and_columns():
    (gate,) = tensors((256, 1024))

    def function(a, sa, w, sw, bias, gate):
        y = torch._scaled_mm(a, w.t(), sa, sw.t(), out_dtype=torch.bfloat16, use_fast_accum=True)
        return F.silu(y) * gate

    (epilogue,) = check(function, *scaled_operands(-1), gate)
    assert epilogue.count("[m]") == 1 and epilogue.count("[n]") == 1 and "[m,n]" in epilogue


def test_scaled_mm_with_scales_of_blocks():
    """A's for 128 elements of a row, one line of them behind the other; W's for squares of 128."""
    m, n, k = 256, 1024, 512  # as many squares along k as lie without a gap
    x, w = tensors((m, k), (n, k))
    a, sa = as_codes(x.view(m, k // 128, 128), -1)
    squares = (w * 0.05).view(n // 128, 128, k // 128, 128).transpose(1, 2)
    codes, sw = as_codes(squares.reshape(n // 128, k // 128, -1), -1)
    w = codes.view(n // 128, k // 128, 128, 128).transpose(1, 2).reshape(n, k)
    sa = sa.view(m, k // 128).t().contiguous().t()
    sw = sw.view(n // 128, k // 128)

    def function(a, sa, w, sw):
        return torch._scaled_mm(a, w.t(), sa, sw.t(), out_dtype=torch.bfloat16).relu() * 2

    assert check(function, a.view(m, k), sa, w, sw) == ["d=relu(acc)*2"]


def test_codes_with_the_scale_of_each_row():
    def scaled(a, sa, w, sw, bias):
        return as_codes(torch._scaled_mm(a, w.t(), sa, sw, bias=bias, out_dtype=torch.bfloat16).relu(), -1)

    (epilogue,) = check(scaled, *scaled_operands())
    assert "max[m](" in epilogue and epilogue.count("448") >= 2  # the clamp too
    x, w = tensors((256, 512), (1024, 512))
    with torch.no_grad():
        (epilogue,) = check(lambda x, w: as_codes(F.silu(x @ w.t()), -1), x, w * 0.05)
    assert "max[m](" in epilogue and epilogue.count("448") >= 2  # the clamp too


def test_scaled_mm_that_is_left_alone():
    """An output of eight bits is scaled by a rule of its own."""
    a, sa, w, sw, _ = scaled_operands()
    fused = taken_always()
    made = compiled(lambda *t: torch._scaled_mm(t[0], t[2].t(), t[1], t[3]), a, sa, w, sw, fuse=fused)
    near(made, torch._scaled_mm(a, w.t(), sa, sw))
    assert [entry.reason for entry in fused.report] == ["D is of type torch.float8_e4m3fn"]


def test_operator_of_codes():
    a, sa, w, sw, bias = scaled_operands(-1)
    text = "y=acc*s[m]*t[n]+b[n];q[m]=max(abs(y))/448;d=y/q[m]"
    made = kt.matmul_epilogue(a, w.t(), text, out_dtype=torch.float8_e4m3fn, s=sa.view(-1), t=sw.view(-1), b=bias)
    wanted = torch._scaled_mm(a, w.t(), sa, sw.t(), out_dtype=torch.bfloat16).float() + bias
    near(made["d"].float() * made["q"][:, None], wanted, 5e-2)
    x, v, r = tensors((256, 512), (512, 1024), (256, 1024))
    torch.library.opcheck(
        torch.ops.kiln.matmul_epilogue.default, (x, v, "d=acc+r[m,n];q[m]=sum(acc)", ["r"], [r]),
        {"out_dtype": torch.float32}, test_utils=("test_schema", "test_faketensor"),
    )  # fmt: skip


def test_backward_of_layer_norm():
    x, w1, g, w2 = tensors((256, 512), (1024, 512), (1024,), (512, 1024))

    def model(x, w1, g, w2):
        return F.linear(F.layer_norm(F.linear(x, w1) * 0.05, (1024,), g), w2)

    torch._dynamo.reset()
    fused = taken_always()
    leaves = [x.clone().requires_grad_(), w1.clone().requires_grad_()]
    again = [t.detach().clone().requires_grad_() for t in leaves]
    with torch._inductor.config.patch(fx_graph_cache=False), fused:
        y = torch.compile(model, dynamic=False)(*leaves, g, w2)
        y.float().square().mean().backward()
    print(*fused.report, sep="\n")
    assert any(entry.chosen and entry.epilogue.count("sum[m](") >= 2 for entry in fused.report)
    model(*again, g, w2).float().square().mean().backward()
    for one, other in zip(leaves, again):
        near(one.grad, other.grad, 3e-2)


def test_forward_and_backward():
    x, w1, w2, w3 = tensors((256, 512), (1024, 512), (1024, 512), (512, 1024), grad=True)

    def mlp(x, w1, w2, w3):
        return F.linear(F.silu(F.linear(x, w1) * 0.05) * F.linear(x, w2), w3) * 0.02 + x

    torch._dynamo.reset()
    fused = taken_always()
    with torch._inductor.config.patch(fx_graph_cache=False), fused:
        y = torch.compile(mlp, dynamic=False)(x, w1, w2, w3)
        y.float().square().mean().backward()
    print(*fused.report, sep="\n")
    assert sum(entry.chosen for entry in fused.report) >= 3  # two of them of the forward graph
    got = [t.grad for t in (x, w1, w2, w3)]
    again = [t.detach().requires_grad_() for t in (x, w1, w2, w3)]
    mlp(*again).float().square().mean().backward()
    for one, other in zip(got, again):
        near(one, other.grad, 3e-2)


def test_reduce_overhead():
    """Inductor's own CUDA graphs hold kiln's calls."""
    x, w, r = tensors((64, 512), (1024, 512), (64, 1024))
    function = lambda x, w, r: (x @ w.t() * 0.05).relu() + r  # noqa: E731
    torch._dynamo.reset()
    fused = taken_always()
    with torch.no_grad(), torch._inductor.config.patch(fx_graph_cache=False), fused:
        model = torch.compile(function, dynamic=False, mode="reduce-overhead")
        for _ in range(4):
            near(model(x, w, r).clone(), function(x, w, r))
            r.mul_(-0.5)
    assert fused.report[-1].chosen


def test_a_stored_race_is_not_run_again(tmp_path=None):
    import tempfile

    x, w, r = tensors((256, 512), (1024, 512), (256, 1024))
    function = lambda x, w, r: (x @ w.t() * 0.05).relu() + r  # noqa: E731
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        reports = []
        for _ in range(2):
            fused = kt.compile_pass(tune_seconds=1, races=f"{folder}/races")
            near(compiled(function, x, w, r, fuse=fused), function(x, w, r))
            reports.append(fused.report)
    print(*reports[0], sep="\n")
    assert reports[0] == reports[1]  # the same times, too
    assert "Error" not in reports[0][0].reason


def test_dynamic_shapes_are_left_alone():
    x, w = tensors((256, 512), (1024, 512))
    torch._dynamo.reset()
    fused = taken_always()
    with torch.no_grad(), fused:
        model = torch.compile(lambda x, w: (x @ w.t() * 0.05).relu(), dynamic=True)
        near(model(x, w), (x @ w.t() * 0.05).relu())
    assert [entry.chosen for entry in fused.report] == [False]
    assert "symbols" in fused.report[0].reason


if __name__ == "__main__":
    chosen = sys.argv[1:] or [name for name in list(globals()) if name.startswith("test_")]
    failed = 0
    for name in chosen:
        try:
            globals()[name]()
            print("passed", name, flush=True)
        except Exception:
            import traceback

            traceback.print_exc()
            print("FAILED", name, flush=True)
            failed += 1
    sys.exit(failed)
