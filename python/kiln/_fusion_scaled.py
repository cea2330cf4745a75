"""What is read off a call of ``aten._scaled_mm``: a product of codes of eight bits with scales.

Scales of a matrix, of rows of A and of columns of B are factors of the epilogue: cuda_mma has no other
scales of 8-bit floats, and cuda_wgmma loads what an expression reads while it computes elements before.
Those of blocks along k are scales of the problem."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, Tuple

import torch

from ._fusion_graph import factors_of, sizes_of, value_of
from ._fusion_terms import Unsayable

_PARAMETERS = "self mat2 scale_a scale_b bias scale_result out_dtype use_fast_accum".split()

#: Elements along k, and lines of a square, that share a scale.
_BLOCK = 128


@dataclasses.dataclass(frozen=True)
class Scaled:
    #: Nodes that multiply the product: one value, or [m, 1] and [1, n].
    factors: Tuple[Any, ...]
    #: Nodes of scales of blocks, or None: of A [lines, blocks along k], of B [blocks along k, lines].
    blocks_a: Any
    blocks_b: Any
    bias: Any
    numerics: str


def scaled_of(product: Any) -> Scaled:
    """Raises `Unsayable` where kiln has no such scales, or A and B do not lie along k."""
    given = {**dict(zip(_PARAMETERS, product.args)), **product.kwargs}
    if given.get("scale_result") is not None:
        raise Unsayable("_scaled_mm with scale_result")
    a, b = factors_of(product)
    of_a, of_b = value_of(a), value_of(b).t()
    factors: List[Any] = []
    blocks: Dict[str, Any] = {}
    for name, matrix in (("a", of_a), ("b", of_b)):
        if matrix.stride(1) != 1 and matrix.shape[1] != 1:
            raise Unsayable(f"{name.upper()} does not lie along k: its strides are {tuple(matrix.stride())}")
        scale = given[f"scale_{name}"]
        if _is_in_blocks(f"scale_{name}", scale, matrix, name == "b"):
            blocks[name] = scale
        else:
            factors.append(scale)
    numerics = "fast" if given.get("use_fast_accum", False) else "ieee"
    return Scaled(tuple(factors), blocks.get("a"), blocks.get("b"), given.get("bias"), numerics)


def _is_in_blocks(name: str, node: Any, matrix: torch.Tensor, transposed: bool) -> bool:
    """Whether each line of the matrix [lines, k] has several scales, or squares have one; else it is a
    factor."""
    scale = value_of(node)
    if sizes_of(node) is None or scale.dtype != torch.float32:
        raise Unsayable(f"{name} is not of fp32, or its sizes are symbols")
    if scale.numel() == 1:
        return False
    if scale.dim() == 2:
        scale = scale.t() if transposed else scale
        lines, along = matrix.shape[0], -(-matrix.shape[1] // _BLOCK)
        if tuple(scale.shape) == (lines, 1):
            return False
        tight = scale.is_contiguous()
        if tuple(scale.shape) == (lines, along) and (tight or scale.t().is_contiguous()):
            return True
        if tuple(scale.shape) == (-(-lines // _BLOCK), along) and tight:
            return True
    raise Unsayable(f"{name} with shape {tuple(scale.shape)} and strides {tuple(scale.stride())}")
