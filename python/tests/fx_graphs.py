"""Graphs as PyTorch traces them, with kiln's calls in them. Needs torch."""

import torch
from torch._decomp import get_decompositions
from torch.fx.experimental.proxy_tensor import make_fx

import kiln.torch  # the operator
from kiln._fusion import regions_behind
from kiln._fusion_graph import is_product
from kiln._fusion_rewrite import fuse

aten = torch.ops.aten

#: As Inductor takes operators apart before it calls the pass.
DECOMPOSED = get_decompositions([
    aten.t, aten.rsub, aten.gelu, aten.gelu_backward, aten.silu, aten.silu_backward,
    aten.sigmoid_backward, aten.threshold_backward, aten._softmax, aten._log_softmax, aten.logsumexp,
    aten.native_layer_norm, aten.native_layer_norm_backward,
])  # fmt: skip


def randn(*shape, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape) + sum(shape))).to(dtype)


def traced(function, *tensors, decomposed=True):
    table = DECOMPOSED if decomposed else {}
    return make_fx(function, decomposition_table=table, tracing_mode="fake")(*tensors)


def largest(graph, which=0):
    """The largest region of each product, or one of the smaller."""
    nodes = list(graph.nodes)
    found = [regions_behind(nodes, at) for at, node in enumerate(nodes) if is_product(node)]
    return [regions[min(which, len(regions) - 1)] for regions in found]


def fuse_all(graph, which=0):
    """Fuses the region of each product. Returns the epilogues."""
    epilogues = []
    for product in [x for x in graph.nodes if is_product(x)]:
        nodes = list(graph.nodes)
        regions = regions_behind(nodes, nodes.index(product))
        region = regions[min(which, len(regions) - 1)]
        epilogues.append(region.epilogue)
        fuse(graph, region)
    graph.lint()
    return epilogues


def as_tuple(outputs):
    return tuple(outputs) if isinstance(outputs, (tuple, list)) else (outputs,)


def check(function, *tensors, decomposed=True, tolerance=1e-4):
    """Fuses each region, large and small, and compares with the function. Returns the largest ones'
    epilogues, and the graph with them."""
    wanted = as_tuple(function(*tensors))
    results = []
    for which in (2, 1, 0):
        module = traced(function, *tensors, decomposed=decomposed)
        results = fuse_all(module.graph, which)
        module.recompile()
        got = as_tuple(module(*tensors))
        assert len(got) == len(wanted)
        for one, other in zip(got, wanted):
            assert one.dtype == other.dtype and one.stride() == other.stride()
            torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)
    left = [str(x.target) for x in module.graph.nodes if x.op == "call_function"]
    return results, left


X, W, BIAS, R = randn(6, 5), randn(4, 5), randn(4), randn(6, 4)


def norm(x, w, r, g):
    y = torch.nn.functional.linear(x, w) + r
    return y, y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-5) * g
