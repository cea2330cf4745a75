#!/usr/bin/python3
"""Runs every product that PyTorch makes by cuBLAS with libkiln_cublas.so and without it, on an NVIDIA
GPU, and compares the results. The recorded products are tuned for a moment, and the times of cuBLASLt
in the database are then raised, so that every product that has a race is served.

Usage: tests/hooks/cublas_on_gpu.py [--build build/gpu] [--budget SECONDS]
(--build may be a prefix that kiln is installed in)"""
import argparse
import json
import os
import sqlite3
import subprocess
import sys
import tempfile

CALLS = r"""
import json, sys, threading, torch
torch.manual_seed(1)
results = {}


def draw(*shape, dtype=torch.bfloat16):
    x = torch.randn(*shape, device="cuda", dtype=torch.float64)
    return x.to(dtype)


def note(name, value):
    results[name] = value.double()


for dtype in (torch.bfloat16, torch.float16, torch.float32, torch.float64):
    kind = str(dtype)[6:]
    for ta in (False, True):
        for tb in (False, True):
            a = draw(192, 96, dtype=dtype).T if ta else draw(96, 192, dtype=dtype)
            b = draw(160, 192, dtype=dtype).T if tb else draw(192, 160, dtype=dtype)
            note(f"{kind} {ta} {tb}", a @ b)
    a, b, c = draw(96, 192, dtype=dtype), draw(192, 160, dtype=dtype), draw(96, 160, dtype=dtype)
    note(f"{kind} alpha and beta", torch.addmm(c, a, b, beta=0.5, alpha=2))
    wide, tall = draw(96, 400, dtype=dtype), draw(192, 320, dtype=dtype)
    note(f"{kind} pitches", wide[:, 8:200] @ tall[:, 16:176])
    note(f"{kind} odd addresses", wide[:, 1:194:][:, :192] @ tall[:, 3:163])
    note(f"{kind} odd sizes", draw(37, 53, dtype=dtype) @ draw(53, 41, dtype=dtype))
    note(f"{kind} batches", torch.bmm(draw(5, 48, 64, dtype=dtype), draw(5, 64, 72, dtype=dtype)))
    note(f"{kind} one b", torch.bmm(draw(5, 48, 64, dtype=dtype),
                                    draw(64, 72, dtype=dtype).expand(5, 64, 72)))
    note(f"{kind} bias", torch.nn.functional.linear(a, b.T.contiguous(), draw(160, dtype=dtype)))
    note(f"{kind} one row", draw(1, 192, dtype=dtype) @ b)
    note(f"{kind} in place", c.clone().addmm_(a, b))
    out = torch.full((96, 160), float("nan"), device="cuda", dtype=dtype)
    note(f"{kind} over NaN", torch.mm(a, b, out=out))
torch.backends.cuda.matmul.allow_tf32 = True
note("tf32", draw(96, 192, dtype=torch.float32) @ draw(192, 160, dtype=torch.float32))
torch.backends.cuda.matmul.allow_tf32 = False
torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
note("fp16 exact", draw(96, 192, dtype=torch.float16) @ draw(192, 160, dtype=torch.float16))
if hasattr(torch.backends.cuda.matmul, "allow_fp16_accumulation"):
    torch.backends.cuda.matmul.allow_fp16_accumulation = True
    note("fp16 short", draw(96, 192, dtype=torch.float16) @ draw(192, 160, dtype=torch.float16))
    torch.backends.cuda.matmul.allow_fp16_accumulation = False
whole = lambda *s: torch.randint(-9, 9, s, device="cuda", dtype=torch.int8)
# cublasLtMatmul with the epilogues and the biases that kiln has: fp32's and D's type's.
x, w, one_each = draw(96, 192, dtype=torch.float32), draw(160, 192, dtype=torch.float32), draw(160, dtype=torch.float32)
for _ in range(2):
    note("fp32 bias again", torch.nn.functional.linear(x, w, one_each))
    note("fp32 relu", torch._addmm_activation(one_each, x, w.T, use_gelu=False))
    note("fp32 gelu", torch._addmm_activation(one_each, x, w.T, use_gelu=True))
halves, weights, half_each = draw(96, 192), draw(160, 192), draw(160)
note("bias of bf16", torch.nn.functional.linear(halves, weights, half_each))
note("int8", torch._int_mm(whole(96, 192), whole(160, 192).T))
note("gelu", torch._addmm_activation(draw(160), draw(96, 192), draw(192, 160), use_gelu=True))
note("complex", torch.view_as_real(draw(32, 40, dtype=torch.complex64) @ draw(40, 24, dtype=torch.complex64)))
eight = draw(96, 192, dtype=torch.float8_e4m3fn), draw(160, 192, dtype=torch.float8_e4m3fn).T
one = torch.ones((), device="cuda")
note("fp8", torch._scaled_mm(*eight, scale_a=one * 2, scale_b=one, out_dtype=torch.bfloat16))
# kiln has those that may be added in the tensor cores' accumulators.
fast = dict(out_dtype=torch.bfloat16, use_fast_accum=True)
whole_scales = dict(scale_a=one * 2, scale_b=one * 3)
line_scales = dict(scale_a=draw(96, 1, dtype=torch.float32).abs(), scale_b=draw(1, 160, dtype=torch.float32).abs())
note("fp8 with a scale each", torch._scaled_mm(*eight, **whole_scales, **fast))
note("fp8 with scales of lines", torch._scaled_mm(*eight, **line_scales, **fast))

# Graphs that were captured on one stream run beside each other; the kernels of these share k.
a, b = draw(16, 8192), draw(256, 8192)
note("deep", a @ b.T)
graphs = []
for _ in range(2):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(20):
            out = a @ b.T
    graphs.append((graph, out, torch.cuda.Stream()))
for _ in range(10):
    for graph, _, stream in graphs:
        with torch.cuda.stream(stream):
            graph.replay()
torch.cuda.synchronize()
for i, (_, out, _) in enumerate(graphs):
    note(f"graph {i}", out)


def thread(i):
    with torch.cuda.stream(torch.cuda.Stream()):
        for _ in range(50):
            out = a @ b.T
        torch.cuda.current_stream().synchronize()
    note(f"thread {i}", out)


threads = [threading.Thread(target=thread, args=(i,)) for i in range(4)]
[t.start() for t in threads], [t.join() for t in threads]
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
    for dtype in (torch.bfloat16, torch.float16, torch.float32, torch.float64):
        draw(96, 192, dtype=dtype) @ draw(192, 160, dtype=dtype)
        torch.bmm(draw(5, 48, 64, dtype=dtype), draw(5, 64, 72, dtype=dtype))
    torch._addmm_activation(one_each, x, w.T, use_gelu=True)
    torch._scaled_mm(*eight, **whole_scales, **fast)
    torch.nn.functional.linear(halves, weights, half_each)
    torch.cuda.synchronize()
print(sum("kiln_gemm" in e.name for e in profile.events()))
torch.save({name: value.cpu() for name, value in results.items()}, sys.argv[1])
"""


def run(environment, results):
    done = subprocess.run([sys.executable, "-c", CALLS, results], env=environment,
                          stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"the calls ended with {done.returncode}")
    return int(done.stdout.split()[-1])


def compare(name, one, other):
    import torch

    good, worst, x, y = True, 0.0, torch.load(one), torch.load(other)
    for case in x:
        error = ((x[case] - y[case]).norm() / x[case].norm()).item()
        kind = next((k for k in ("float64", "float32") if case.startswith(k)), "")
        limit = {"float64": 1e-14, "float32": 1e-6, "": 4e-3}[kind]
        worst = max(worst, error / limit)
        if not error <= limit:  # NaN as well
            good = False
            print(f"{name}: {case}: relative error {error:.1e}")
    print(f"{name}: {len(x)} cases, the worst at {worst:.2f} of what is allowed")
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build/gpu")
    parser.add_argument("--budget", type=float, default=1)
    given = parser.parse_args()
    hook = next(f for f in (f"{given.build}/lib/libkiln_cublas.so",
                            f"{given.build}/lib/kiln/libkiln_cublas.so") if os.path.exists(f))
    with tempfile.TemporaryDirectory(dir=os.path.expanduser("~")) as folder:
        plain = dict(os.environ, KILN_DB=f"{folder}/kiln.db", KILN_LOG="error")
        hooked = dict(plain, LD_PRELOAD=os.path.abspath(hook))
        calls = f"{folder}/calls.kcalls"
        run(plain, f"{folder}/plain")
        run(dict(hooked, KILN_RECORD=calls), f"{folder}/recorded")
        import torch  # whose cuBLASLt is raced
        torch.zeros(1, device="cuda") @ torch.zeros(1, device="cuda")
        lt = next(line.split()[-1] for line in open("/proc/self/maps") if "libcublasLt.so" in line)
        tuned = subprocess.run([f"{given.build}/bin/kiln", "tune", "--device", "cuda:0", "--recorded",
                                calls, "--each", "--budget", str(given.budget)], check=False,
                               env=dict(plain, KILN_CUBLASLT=lt), stdout=subprocess.PIPE, text=True)
        print(tuned.stdout.splitlines()[-1])
        with sqlite3.connect(f"{folder}/kiln.db") as db:
            db.execute("UPDATE measurement SET median_ns = 1e9, low_ns = 1e9, high_ns = 1e9 WHERE "
                       "failure IS NULL AND config_id IN (SELECT id FROM config WHERE family = "
                       "'cublaslt')")
        served = run(hooked, f"{folder}/served")
        print(f"{served} of 11 products of the last round by kiln")
        same = [compare(name, f"{folder}/plain", f"{folder}/{name}") for name in ("recorded", "served")]
    return not (all(same) and served >= 9)


sys.exit(main())
