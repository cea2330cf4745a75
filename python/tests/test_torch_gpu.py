"""kiln.torch on an NVIDIA GPU, where PyTorch sees one: operators, torch.compile, streams, graphs."""

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("PyTorch sees no GPU", allow_module_level=True)

import kiln  # noqa: E402
import kiln.torch as kt  # noqa: E402

KINDS = [torch.bfloat16, torch.float16, torch.float32]


def tensors(dtype, *shapes, grad=False):
    torch.manual_seed(1)
    return [torch.randn(*s, device="cuda", dtype=dtype, requires_grad=grad) for s in shapes]


def assert_close(got, wanted):
    error = (got.float() - wanted.float()).norm() / wanted.float().norm()
    assert error < {2: 8e-3, 4: 1e-5}[got.element_size()], error


@pytest.mark.parametrize("dtype", KINDS)
def test_products(dtype):
    for m, n, k in ((128, 256, 512), (1, 64, 96), (37, 41, 53)):
        a, b = tensors(dtype, (m, k), (n, k))
        wanted = (a.double() @ b.double().T).to(dtype)
        assert_close(kt.matmul(a, b.T), wanted)
        assert_close(kiln.matmul(a, b.T), wanted)


def test_the_current_stream_is_taken():
    (a,) = tensors(torch.float32, (1024, 1024))
    side = torch.cuda.Stream()
    kt.matmul(a, a)
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        torch.cuda._sleep(50_000_000)
        a.fill_(2)
        got = kt.matmul(a, a)
    side.synchronize()
    assert bool((got == 4096).all())


def test_a_graph():
    a, b = tensors(torch.bfloat16, (64, 2048), (128, 2048))
    kt.matmul(a, b.T)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        got = kt.matmul(a, b.T)
    a.normal_()
    graph.replay()
    assert_close(got, a @ b.T)


def test_numbers_beside_a_product_are_of_the_call():
    a, b, bias = tensors(torch.float32, (64, 96), (32, 96), (32,))
    wanted = a.double() @ b.double().T
    for scalar in ("s[]", "s[]:host", "s[]:bf16:host"):
        got = kt.matmul_epilogue(a, b.T, f"d=acc*{scalar}+b[n]", s=0.5, b=bias)
        assert_close(got, wanted / 2 + bias)
    got = kt.matmul_epilogue(a, b.T, "d=acc-max[m](acc)*s[]:host", s=2)
    assert_close(got, wanted - 2 * wanted.amax(1, keepdim=True))
    on_gpu = torch.tensor(0.5, device="cuda")
    assert_close(kt.matmul_epilogue(a, b.T, "d=acc*s[]", s=on_gpu), wanted / 2)

    scale = torch.tensor(0.5)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        got = kt.matmul_epilogue(a, b.T, "d=acc*s[]:host", s=scale)
    scale.fill_(8)  # the graph keeps what it was captured with
    graph.replay()
    assert_close(got, wanted / 2)


def test_gradients():
    x, w, bias = tensors(torch.float32, (32, 64), (48, 64), (48,), grad=True)
    kt.linear(x, w, bias, "silu").square().sum().backward()
    got = [t.grad for t in (x, w, bias)]
    again = [t.detach().double().requires_grad_() for t in (x, w, bias)]
    torch.nn.functional.silu(torch.nn.functional.linear(*again)).square().sum().backward()
    for one, other in zip(got, again):
        assert_close(one, other.grad.float())


@pytest.mark.parametrize("grad", [False, True])
def test_opcheck(grad):
    x, w, bias = tensors(torch.float32, (16, 64), (32, 64), (32,), grad=grad)
    torch.library.opcheck(torch.ops.kiln.linear.default, (x, w, bias, "none"))
    torch.library.opcheck(torch.ops.kiln.matmul.default, (x, w.T))


def test_a_compiled_model_is_one_graph():
    torch.manual_seed(1)
    model = torch.nn.Sequential(
        torch.nn.Linear(256, 512), torch.nn.GELU(), torch.nn.Linear(512, 256)
    ).to("cuda", torch.bfloat16)
    (x,) = tensors(torch.bfloat16, (64, 256))
    wanted = model(x)
    assert kt.patch(model) == ["0", "2"]
    compiled = torch.compile(model, fullgraph=True)
    got = compiled(x)
    assert_close(got, wanted)
    got.sum().backward()
    assert model[0].weight.grad.isfinite().all()
    with torch.inference_mode():
        assert_close(compiled(x), wanted)


if __name__ == "__main__":  # clock: a benchmark, no test
    import time

    def per_call(function, *arguments):
        best = 1e9
        for _ in range(20):
            torch.cuda.synchronize()
            begin = time.perf_counter()  # clock: of the benchmark
            for _ in range(500):
                function(*arguments)
            best = min(best, (time.perf_counter() - begin) / 500)
        torch.cuda.synchronize()
        return best * 1e6

    a, b = tensors(torch.bfloat16, (16, 16), (16, 16))
    for name, function in (("torch.mm", torch.mm), ("torch.ops.kiln.matmul", torch.ops.kiln.matmul),
                           ("kiln.torch.matmul", kt.matmul), ("kiln.matmul", kiln.matmul)):
        with torch.inference_mode():
            function(a, b)
            print(f"{name}, 16x16x16 bf16: {per_call(function, a, b):.2f} us")
