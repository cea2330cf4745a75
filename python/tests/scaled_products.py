"""An operator that stands for ``aten._scaled_mm`` with codes of int8, since PyTorch 1.13 has neither it nor
8-bit floats. Needs torch."""

import contextlib

import torch

from kiln import _fusion_graph

_library = torch.library.Library("kiln_test", "DEF")
_library.define(
    "_scaled_mm(Tensor self, Tensor mat2, Tensor scale_a, Tensor scale_b, Tensor? bias=None, "
    "Tensor? scale_result=None, ScalarType? out_dtype=None, bool use_fast_accum=False) -> Tensor"
)


def _along_k(scale, lines, k):
    """A scale for each element of [lines, k]."""
    for dim, size in ((0, lines), (1, k)):
        if scale.dim() == 2 and 1 < scale.shape[dim] < size:
            scale = scale.repeat_interleave(128, dim).narrow(dim, 0, size)
    return scale


def _computed(a, b, scale_a, scale_b, bias=None, scale_result=None, out_dtype=None, use_fast_accum=False):
    (m, k), n = a.shape, b.shape[1]
    of_a, of_b = _along_k(scale_a, m, k), _along_k(scale_b.t(), n, k).t()
    made = (a.double() * of_a) @ (b.double() * of_b)
    return (made if bias is None else made + bias).to(out_dtype or a.dtype)


def _shape(a, b, scale_a, scale_b, bias=None, scale_result=None, out_dtype=None, use_fast_accum=False):
    return a.new_empty((a.shape[0], b.shape[1]), dtype=out_dtype or a.dtype)


_library.impl("_scaled_mm", _computed, "CPU")
_library.impl("_scaled_mm", _shape, "Meta")

scaled_mm = torch.ops.kiln_test._scaled_mm


@contextlib.contextmanager
def known():
    """The pass takes the operator for ``aten._scaled_mm``, and int8 for the codes of A, B and D."""
    name = "kiln_test._scaled_mm.default"
    _fusion_graph.PRODUCTS[name] = _fusion_graph.PRODUCTS["aten._scaled_mm.default"]
    _fusion_graph.SCALED_PRODUCTS.add(name)
    for codes in (_fusion_graph.CODES, _fusion_graph.CODES_OF_D):
        codes.add(torch.int8)
    try:
        yield
    finally:
        del _fusion_graph.PRODUCTS[name]
        _fusion_graph.SCALED_PRODUCTS.discard(name)
        for codes in (_fusion_graph.CODES, _fusion_graph.CODES_OF_D):
            codes.discard(torch.int8)


def codes(*shape):
    generator = torch.Generator().manual_seed(7 + sum(shape))
    return torch.randint(-9, 10, shape, generator=generator, dtype=torch.int8)


def scales(*shape):
    generator = torch.Generator().manual_seed(3 + sum(shape))
    return torch.rand(shape, generator=generator) * 0.02 + 0.01
