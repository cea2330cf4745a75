"""What is read off a graph of PyTorch: operators, shapes, types, strides, writes to memory."""

from __future__ import annotations

from typing import Any, Optional, Tuple

import torch

from ._fusion_terms import POINTWISE, REDUCTIONS, same

Shape = Tuple[int, ...]

#: The product's operators, with the positions of A and B among their arguments.
PRODUCTS = {
    "aten.mm.default": (0, 1),
    "aten.bmm.default": (0, 1),
    "aten.addmm.default": (1, 2),
    "aten.baddbmm.default": (1, 2),
    "aten._scaled_mm.default": (0, 1),
}

#: Those of codes of eight bits with scales.
SCALED_PRODUCTS = {"aten._scaled_mm.default"}

TYPES = {
    torch.float16: "fp16",
    torch.bfloat16: "bf16",
    torch.float32: "fp32",
    torch.float64: "fp64",
}

#: Codes of eight bits, which PyTorch 1.13 lacks: of A and B of `SCALED_PRODUCTS`, and of D.
CODES = {getattr(torch, x) for x in ("float8_e4m3fn", "float8_e5m2") if hasattr(torch, x)}
CODES_OF_D = {getattr(torch, x) for x in ("float8_e4m3fn",) if hasattr(torch, x)}

#: Same elements, other dimensions.
VIEWS = {
    "aten._reshape_alias.default", "aten._unsafe_view.default", "aten.expand.default",
    "aten.reshape.default", "aten.squeeze.default", "aten.squeeze.dim", "aten.squeeze.dims",
    "aten.unsqueeze.default", "aten.view.default",
}  # fmt: skip


def name_of(node: Any) -> str:
    """The operator's name: ``aten.mm.default``. Empty where the node calls none."""
    return str(node.target) if node.op == "call_function" else ""


def value_of(node: Any) -> Any:
    """The tensor that PyTorch traced at the node, without data. None: something else."""
    value = node.meta.get("val")
    return value if isinstance(value, torch.Tensor) else None


def sizes_of(node: Any) -> Optional[Shape]:
    """The shape. None: not a tensor, or a size is a symbol."""
    value = value_of(node)
    if value is None or not all(type(size) is int for size in value.shape):
        return None
    return tuple(value.shape)


def is_widening(node: Any) -> bool:
    """Whether the node only gives the elements of another a type that is no narrower."""
    if POINTWISE.get(name_of(node)) is not same or not node.args:
        return False
    before, after = value_of(node.args[0]), value_of(node)
    if before is None or before.dtype not in TYPES or after.dtype not in TYPES:
        return False
    return bool(torch.finfo(before.dtype).bits <= torch.finfo(after.dtype).bits)


def is_product(node: Any) -> bool:
    return name_of(node) in PRODUCTS


def is_scaled(product: Any) -> bool:
    return name_of(product) in SCALED_PRODUCTS


def factors_of(product: Any) -> Tuple[Any, Any]:
    """The nodes of A and B."""
    a, b = PRODUCTS[name_of(product)]
    return product.args[a], product.args[b]


def is_fused_by_inductor(node: Any) -> bool:
    """Whether Inductor computes the node in one kernel with what it reads."""
    name = name_of(node)
    return name in POINTWISE or name in REDUCTIONS or name in VIEWS


def changes_memory(node: Any) -> bool:
    """Whether the node may write to what others read."""
    if node.op != "call_function":
        return node.op in ("call_module", "call_method")
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        module = getattr(node.target, "__module__", None) or ""
        return module not in ("_operator", "math") and not module.startswith("torch._inductor.")
    return any(a.alias_info is not None and a.alias_info.is_write for a in schema.arguments)


def is_readable(shape: Shape, strides: Shape, batched: bool) -> bool:
    """Whether kiln reads an operand of an expression as it lies: lines of adjacent elements, batches
    one behind the other."""
    batch, distance = (shape[0], strides[0]) if batched else (1, 0)
    one, steps = (shape[1:], strides[1:]) if batched else (shape, strides)
    if not one:
        return batch == 1 or distance == 1
    lines, length, pitch, inner = 1, one[-1], one[-1], steps[-1]
    if len(one) == 2:
        (lines, length), (pitch, inner) = one, steps
        if inner != 1 and length > 1:
            lines, length, pitch, inner = length, lines, inner, pitch
        if lines == 1:
            pitch = length
    adjacent = inner == 1 or length == 1
    return adjacent and pitch >= length and (batch == 1 or distance == lines * pitch)


def viewed_strides(value: Any, shape: Shape) -> Optional[Shape]:
    """The strides of a view of that shape. None: only a copy has it."""
    try:
        return tuple(value.view(shape).stride())
    except (RuntimeError, ValueError):
        return None


def is_readable_product(shape: Shape, strides: Shape) -> bool:
    (rows, columns), (outer, inner) = shape[-2:], strides[-2:]
    by_rows = (inner == 1 or columns == 1) and (outer >= columns or rows == 1)
    by_columns = (outer == 1 or rows == 1) and (inner >= rows or columns == 1)
    return by_rows or by_columns
