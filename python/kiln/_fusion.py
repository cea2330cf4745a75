"""Finds, in a graph of PyTorch, what one product of kiln can compute: a product and the pointwise
operators and reductions behind it, as an epilogue's text. A function of the graph, which stays as it
is; `_fusion_rewrite` replaces what was found.

Values that depend on the product are members of its region. What else they are made of is an operand
of the call, or is computed within it from operands where nobody else needs it.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, Optional, Set, Tuple

import torch

from . import _kiln
from ._fusion_graph import (
    CODES, CODES_OF_D, TYPES, VIEWS, Shape, factors_of, is_fused_by_inductor, is_readable_product,
    is_scaled, is_widening, name_of, sizes_of, value_of,
)  # fmt: skip
from ._fusion_growth import Growth, Operand
from ._fusion_scaled import scaled_of
from ._fusion_terms import Term, Text, Unsayable
from .errors import Error


@dataclasses.dataclass(frozen=True)
class Output:
    name: str
    node: Any
    #: As kiln stores it, one size an index.
    shape: Shape


@dataclasses.dataclass(frozen=True)
class Region:
    """A product with what is computed with it. ``members`` are in the graph's order, the product
    first; ``absorbed`` are computed within it too and may be needed outside."""

    members: Tuple[Any, ...]
    absorbed: Tuple[Any, ...]
    a: Any
    b: Any
    epilogue: str
    operands: Tuple[Operand, ...]
    outputs: Tuple[Output, ...]
    #: D's type. None: A's.
    out_dtype: Optional[torch.dtype] = None
    numerics: str = "ieee"
    #: The nodes of scales of blocks: of A [lines, blocks along k], of B [blocks along k, lines].
    scale_a: Any = None
    scale_b: Any = None

    @property
    def product(self) -> Any:
        return self.members[0]

    @property
    def is_bare(self) -> bool:
        return self.epilogue == "d=acc"


def regions_behind(nodes: List[Any], at: int) -> List[Region]:
    """What kiln can compute with the product ``nodes[at]``, of the graph's nodes in their order: the
    most first, then what reads no reduction, then without reductions. Raises `Unsayable` where the
    product itself is not one of kiln's."""
    _check_product(nodes[at])
    found: List[Region] = []
    for reductions in ("read", "last", "none"):
        region = _grown(nodes, at, reductions)
        if all(region.members != other.members for other in found):
            found.append(region)
    return found


def reasons_behind(nodes: List[Any], at: int) -> List[str]:
    """Why the operators that read a value of the product's largest region are outside of it."""
    try:
        return list(dict.fromkeys(Growth(nodes, at, "read", set(), None).reasons.values()))
    except Unsayable as reason:
        return [str(reason)]


def _check_product(product: Any) -> None:
    scaled = is_scaled(product)
    for name, node in zip("DAB", (product, *factors_of(product))):
        shape, value = sizes_of(node), value_of(node)
        if shape is None:
            raise Unsayable(f"the sizes of {name} are symbols")
        if 0 in shape:
            raise Unsayable(f"{name} is empty")
        of_codes = scaled and node is not product
        known = value.dtype in (CODES if of_codes else TYPES)
        if not known or (not of_codes and value.dtype != value_of(product).dtype):
            raise Unsayable(f"{name} is of type {value.dtype}")
        if not is_readable_product(shape, tuple(value.stride())):
            raise Unsayable(f"{name} has strides {tuple(value.stride())}")
    if scaled:
        scaled_of(product)
    elif len(product.args) not in (2, 3) or {*product.kwargs} - {"alpha", "beta"}:
        raise Unsayable(f"{name_of(product)} with these arguments")


class _AtFault(Unsayable):
    """Without these members it might do."""

    def __init__(self, reason: str, members: List[Any]) -> None:
        super().__init__(reason)
        self.members = members


def _grown(nodes: List[Any], at: int, reductions: str) -> Region:
    left_out: Set[Any] = set()
    inside: Optional[Set[Any]] = None
    while True:
        growth = Growth(nodes, at, reductions, left_out, inside)
        taken = {*growth.values, *growth.absorbed}
        if inside is None or taken < inside:
            inside = taken
            continue
        try:
            return _region_of(growth)
        except _AtFault as fault:
            if nodes[at] in fault.members:
                raise
            left_out.update(fault.members)
            inside = None


def _region_of(growth: Growth) -> Region:
    members = tuple(growth.values)
    leaving = [x for x in members if any(user not in growth.values for user in x.users)]
    codes = [x for x in leaving if value_of(x) is not None and value_of(x).dtype in CODES_OF_D]
    faulty = [x for x in leaving if not _may_leave(growth, x, leaving)] or codes[1:]
    if faulty:
        raise _AtFault("a value that an epilogue does not store is needed outside", faulty)
    of_d = value_of(codes[0] if codes else growth.product).dtype
    results = [growth.values[x].term for x in leaving]
    text = Text(results)
    stored: List[str] = []
    outputs: Dict[str, Output] = {}
    for node, result in zip(leaving, results):
        indices = growth.sizes.ordered(result.per)
        dtype = value_of(node).dtype
        is_like_d = len(indices) == len(growth.sizes.of) and dtype == of_d
        if is_like_d and "d" not in outputs:
            name = left = "d"
        else:
            name = growth.new_name(node.name)
            left = f"{name}[{','.join(indices)}]:{TYPES[dtype]}"
        stored.append(f"{left}={text.of(result)}")
        outputs[name] = Output(name, node, growth.sizes.shape(indices))
    epilogue = ";".join(text.statements + stored)
    try:
        order = [name for name, _, _ in _kiln.stored_by(epilogue)]
    except Error as error:
        # The language's limits: from the end, several at a time where there are many.
        raise _AtFault(str(error), list(members[-max(1, len(members) // 16) :])) from None
    used = _ids_of_all(results)
    a, b = factors_of(growth.product)
    scaled = growth.scaled
    return Region(
        members,
        tuple(growth.absorbed),
        a,
        b,
        epilogue,
        tuple(x for x in growth.operands if id(x.term) in used),
        tuple(outputs[name] for name in order),
        None if scaled is None and of_d == value_of(a).dtype else of_d,
        scaled.numerics if scaled else "ieee",
        scaled.blocks_a if scaled else None,
        scaled.blocks_b if scaled else None,
    )


def _may_leave(growth: Growth, node: Any, leaving: List[Any]) -> bool:
    value, own = value_of(node), growth.values[node]
    if value is None:
        return False
    if node is not growth.product and not any(user in growth.values for user in node.users):
        # Nothing is saved by storing what is free where it is needed.
        if name_of(node) in VIEWS or is_widening(node):
            return False
        stored = {id(growth.values[x].term) for x in leaving if x is not node}
        if _is_made_of(own.term, stored) and all(is_fused_by_inductor(x) for x in node.users):
            return False
    varying = {i for i in own.term.per if growth.sizes.of[i] != 1}
    if value.dtype in CODES_OF_D and len(own.term.per) != len(growth.sizes.of):
        return False
    known = value.dtype in TYPES or value.dtype in CODES_OF_D
    return known and value.is_contiguous() and varying == {*own.labels} - {""}


def _is_made_of(x: Term, stored: Set[int]) -> bool:
    """Whether ``x`` can be computed from those terms, and operands, element by element."""
    seen: Set[int] = set()
    left = [x]
    while left:
        one = left.pop()
        if id(one) in stored or id(one) in seen:
            continue
        if one.form == "acc" or one.is_reduction:
            return False
        seen.add(id(one))
        left.extend(one.of)
    return True


def _ids_of_all(results: List[Term]) -> Set[int]:
    """Of the terms and of all that they are made of."""
    found: Dict[int, Term] = {}
    left = list(results)
    while left:
        one = left.pop()
        if id(one) not in found:
            found[id(one)] = one
            left.extend(one.of)
    return set(found)
