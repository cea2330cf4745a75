"""Which operators behind a product its region takes in, and the term of each of their values."""

from __future__ import annotations

import dataclasses
import math
import operator
import re
from typing import Any, Dict, FrozenSet, List, Optional, Sequence, Set, Tuple

import torch

from . import _kiln
from ._fusion_graph import (
    CODES_OF_D, TYPES, VIEWS, Shape, changes_memory, is_product, is_readable, is_scaled,
    is_widening, name_of, sizes_of, value_of, viewed_strides,
)  # fmt: skip
from ._fusion_scaled import Scaled, scaled_of
from ._fusion_terms import (
    POINTWISE, REDUCTIONS, Term, Unsayable, add, call, div, mul, operand, reduce, rounded, same,
    sub, term,
)  # fmt: skip

Node = torch.fx.Node

#: Inductor's, of the largest element and of the sum of exponentials of each row.
_SOFTMAX = "prims.prepare_softmax_online.default"

#: Operators that the language could say in words that lose digits.
_REFUSED = {
    "aten.var_mean.correction": "a variance: the language reduces no distances from a mean",
    "aten.var.correction": "a variance: the language reduces no distances from a mean",
}

#: What an epilogue's text may not call its operands.
_RESERVED = frozenset(
    "acc acc0 acc1 d m n batch sum max min logsumexp even odd pair "
    "a b out bias activation residual epilogue alpha beta c scale_a scale_b scale_d amax_d zero_a "
    "column_sums_b numerics gate groups expected_rows gather scatter add_rows row_weights out_dtype "
    "threads engine stream budget candidates seed force race policy progress device".split()
    + _kiln.expression_functions()
)


@dataclasses.dataclass(frozen=True)
class Operand:
    name: str
    node: Any
    #: As kiln reads it, one size an index.
    shape: Shape
    term: Term


@dataclasses.dataclass(frozen=True)
class _Value:
    """A member's value: how it is computed, and which index each of its dimensions counts (none where
    the dimension has one element). Several dimensions may count one index: [batch, sequence, n]."""

    term: Term
    labels: Tuple[str, ...]


class _Sizes:
    def __init__(self, shape: Shape) -> None:
        names = ("m", "n") if len(shape) == 2 else ("batch", "m", "n")
        self.of: Dict[str, int] = dict(zip(names, shape))

    def shape(self, indices: Sequence[str]) -> Shape:
        return tuple(self.of[i] for i in indices)

    def ordered(self, indices: FrozenSet[str]) -> Tuple[str, ...]:
        return tuple(i for i in self.of if i in indices)

    def label(self, shape: Shape, indices: Sequence[str]) -> Tuple[str, ...]:
        """What each dimension of ``shape`` counts, where its elements are those of ``indices`` in
        their order."""
        left = [(i, self.of[i]) for i in indices if self.of[i] != 1]
        labels: List[str] = []
        reached = 1
        for size in shape:
            if size == 1:
                labels.append("")
                continue
            if not left or left[0][1] % (reached * size) != 0:
                raise Unsayable(f"a view with shape {shape}")
            labels.append(left[0][0])
            reached *= size
            if reached == left[0][1]:
                left.pop(0)
                reached = 1
        if left:
            raise Unsayable(f"a view with shape {shape}")
        return tuple(labels)


class Growth:
    """One attempt to grow a region, with some nodes left out. ``inside``: what an earlier attempt took
    in, so that what is needed there alone is computed there."""

    def __init__(
        self, nodes: List[Any], at: int, reductions: str, left_out: Set[Any], inside: Optional[Set[Any]]
    ) -> None:
        self.product = nodes[at]
        self.reductions = reductions
        self.inside = inside
        self.scaled: Optional[Scaled] = scaled_of(self.product) if is_scaled(self.product) else None
        self.sizes = _Sizes(sizes_of(self.product) or ())
        self.values: Dict[Any, _Value] = {}
        self.absorbed: Dict[Any, None] = {}
        #: Why a node that reads a member is outside.
        self.reasons: Dict[Any, str] = {}
        self.names: Set[str] = set()
        self._read_as: Dict[Tuple[Any, Tuple[str, ...]], Operand] = {}
        #: Values of 16 bits that are made wider, as they are then.
        self._rounded: Dict[int, Term] = {}
        #: What depends on the product and is outside: no member may read it.
        self._beyond: Set[Any] = set()
        self._same_memory = self._reach(nodes, at)
        self.values[self.product] = self._value_of_product()
        for node in nodes[at + 1 :]:
            if node not in self._same_memory:
                break
            read = [x for x in node.all_input_nodes if x in self.values or x in self._beyond]
            if not read or node.op == "output":
                continue
            try:
                if node in left_out or any(x in self._beyond for x in read):
                    raise Unsayable("a value outside is needed first")
                self._join(node)
            except Unsayable as reason:
                self._beyond.add(node)
                if any(x in self.values for x in read):
                    self.reasons[node] = str(reason)

    @staticmethod
    def _reach(nodes: List[Any], at: int) -> Set[Any]:
        """The nodes around the product with no write to memory between."""
        first, last = at, at
        while first > 0 and not changes_memory(nodes[first - 1]):
            first -= 1
        while last + 1 < len(nodes) and not changes_memory(nodes[last + 1]):
            last += 1
        return set(nodes[first : last + 1])

    @property
    def operands(self) -> List[Operand]:
        return list(self._read_as.values())

    def _value_of_product(self) -> _Value:
        indices = tuple(self.sizes.of)
        labels = self.sizes.label(self.sizes.shape(indices), indices)
        product = Term("acc", per=frozenset(indices))
        arguments, numbers = self.product.args, self.product.kwargs
        if self.scaled is not None:
            for factor in self.scaled.factors:
                product = mul(product, self._operand(factor, labels))
            if self.scaled.bias is not None:
                product = add(product, self._operand(self.scaled.bias, labels))
        elif len(arguments) == 3:
            added = self._operand(arguments[0], labels)
            alpha, beta = numbers.get("alpha", 1), numbers.get("beta", 1)
            product = add(product if alpha == 1 else mul(product, alpha), added, alpha=beta)
        return _Value(product, labels)

    def _join(self, node: Any) -> None:
        """Makes the node a member."""
        name, shape = name_of(node), sizes_of(node)
        if name == _SOFTMAX:
            self.values[node] = self._reduced(node, "aten.amax.default", True)
            if self.reductions == "none":
                raise self._forget(node, "reductions are left out here")
            return
        if name in _REFUSED:
            raise Unsayable(_REFUSED[name])
        if shape is None:
            raise Unsayable(f"{name or node.op}: not a tensor, or sizes that are symbols")
        if name not in VIEWS and any(self._is_of_codes(x) for x in node.all_input_nodes):
            raise Unsayable(f"{name or node.op} of codes of eight bits")
        if name in VIEWS:
            self.values[node] = self._viewed(node, shape)
        elif node.target is operator.getitem:
            self.values[node] = self._part_of_softmax(node)
        elif name in REDUCTIONS:
            keeps = len(shape) == len(self.values[node.args[0]].labels)
            self.values[node] = self._reduced(node, name, keeps)
        elif name in POINTWISE:
            self.values[node] = self._computed(node, name, shape)
        else:
            raise Unsayable(f"{name or node.op} is not part of the language")
        value = value_of(node)
        of_fp64 = value_of(self.product).dtype == torch.float64
        wider = value.dtype == torch.float64 and not of_fp64
        known = value.dtype in TYPES or value.dtype == torch.bool or (self._is_of_codes(node) and not of_fp64)
        if wider or not known:
            raise self._forget(node, f"{name} of type {value.dtype}")
        if self.values[node].term.reduced and self.reductions == "none":
            raise self._forget(node, "reductions are left out here")
        if self.reductions == "last" and self.values[node].term.reduced and name not in REDUCTIONS:
            if set(self.values[node].labels) >= {i for i, size in self.sizes.of.items() if size != 1}:
                raise self._forget(node, "reading reductions is left out here")

    def _is_of_codes(self, node: Any) -> bool:
        """Whether it is a member of eight bits: rounded when it is stored, its value is not known here."""
        return node in self.values and value_of(node) is not None and value_of(node).dtype in CODES_OF_D

    def _forget(self, node: Any, reason: str) -> Unsayable:
        del self.values[node]
        return Unsayable(reason)

    def _viewed(self, node: Any, shape: Shape) -> _Value:
        value = self.values[node.args[0]]
        before = sizes_of(node.args[0])
        if name_of(node) == "aten.expand.default" and before != shape:
            full = self.sizes.label(shape, tuple(self.sizes.of))
            own = ("",) * (len(full) - len(value.labels)) + value.labels
            if any(i and i != j for i, j in zip(own, full)):
                raise Unsayable("expand along other dimensions")
            return _Value(value.term, full)
        kept = tuple(i for i in self.sizes.of if i in value.labels)
        return _Value(value.term, self.sizes.label(shape, kept))

    def _part_of_softmax(self, node: Any) -> _Value:
        """The largest of a row, and the sum of what softmax makes of it."""
        pair, place = node.args
        largest = self.values[pair]
        if place == 0:
            return largest
        logsumexp = reduce("logsumexp", self.values[pair.args[0]].term, largest.term.per)
        return _Value(call("exp", sub(logsumexp, largest.term)), largest.labels)

    def _reduced(self, node: Any, name: str, keeps: bool) -> _Value:
        function, is_mean = REDUCTIONS[name]
        value = self.values[node.args[0]]
        rank = len(value.labels)
        dims = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim")
        all_dims = dims is None or (isinstance(dims, (list, tuple)) and not dims)
        given = range(rank) if all_dims else [dims] if isinstance(dims, int) else dims
        reduced = {d % rank for d in given} if rank else set()
        over = {value.labels[d] for d in reduced} - {""}
        outside = {value.labels[d] for d in range(rank) if d not in reduced}
        if over & outside:
            raise Unsayable(f"{name} over a part of the rows")
        if over not in ({"m"}, {"n"}, {"m", "n"}) or value.term.per != frozenset(self.sizes.of):
            raise Unsayable(f"{name} over other dimensions than rows or columns")
        made = reduce(function, value.term, value.term.per - over)
        if is_mean:
            made = div(made, math.prod(self.sizes.of[i] for i in over))
        if keeps:
            labels = tuple("" if d in reduced else i for d, i in enumerate(value.labels))
        else:
            labels = tuple(i for d, i in enumerate(value.labels) if d not in reduced)
        return _Value(made, labels)

    def _computed(self, node: Any, name: str, shape: Shape) -> _Value:
        labels: List[str] = [""] * len(shape)
        for x in node.all_input_nodes:
            if x in self.values:
                own = self.values[x].labels
                for d, label in enumerate(own, len(shape) - len(own)):
                    if label and labels[d] not in ("", label):
                        raise Unsayable(f"{name} of values that count other indices")
                    labels[d] = label or labels[d]
        if any(size != 1 and not label for size, label in zip(shape, labels)):
            labels = self._of_whole_shape(name, shape, labels)
        for label in {*labels} - {""}:
            if math.prod(s for s, i in zip(shape, labels) if i == label) != self.sizes.of[label]:
                raise Unsayable(f"{name} with a shape that is not the product's")
        return _Value(self._apply(node, name, tuple(labels)), tuple(labels))

    def _of_whole_shape(self, name: str, shape: Shape, labels: Sequence[str]) -> List[str]:
        """What the product's dimensions count, where members of fewer ones meet an operand that has all."""
        try:
            whole = self.sizes.label(shape, tuple(self.sizes.of))
        except Unsayable:
            raise Unsayable(f"{name} with a shape that is not the product's") from None
        if any(label and label != other for label, other in zip(labels, whole)):
            raise Unsayable(f"{name} of values that count other indices")
        return list(whole)

    def _apply(self, node: Any, name: str, labels: Tuple[str, ...]) -> Term:
        arguments = [
            (self.values[x].term if x in self.values else self._operand(x, labels))
            if isinstance(x, Node)
            else x
            for x in node.args
        ]
        if any(isinstance(x, Node) for x in node.kwargs.values()):
            raise Unsayable(f"{name} with a tensor as a named argument")
        if self._is_rounded(node):
            exact = arguments[0]
            dtype = TYPES[value_of(node.args[0]).dtype]
            return self._rounded.setdefault(id(exact), rounded(exact, dtype))
        numbers = {} if POINTWISE[name] is same else node.kwargs
        try:
            return POINTWISE[name](*arguments, **numbers)
        except TypeError:
            raise Unsayable(f"{name} with these arguments") from None

    def _is_rounded(self, node: Any) -> bool:
        """Whether the node makes a member of 16 bits wider, which PyTorch had rounded to them."""
        if not is_widening(node) or value_of(node).dtype not in (torch.float32, torch.float64):
            return False
        before = self.values.get(node.args[0])
        narrow = value_of(node.args[0]).dtype in (torch.float16, torch.bfloat16)
        return before is not None and narrow and not before.term.reduced

    def _operand(self, node: Any, labels: Tuple[str, ...]) -> Term:
        """What is read of ``node``, whose dimensions are the last of those that ``labels`` names."""
        if not isinstance(node, Node):
            return term(node)
        if node in self._beyond or node in self.values:
            raise Unsayable("an operand that depends on the product")
        shape, name = sizes_of(node), name_of(node)
        if shape is None:
            raise Unsayable(f"{node.name}: not a tensor, or sizes that are symbols")
        if len(shape) > len(labels):
            raise Unsayable(f"{node.name} has more dimensions than the product")
        own = labels[len(labels) - len(shape) :]
        if name == "aten.full.default" or name == "aten.scalar_tensor.default":
            number = node.args[1 if name == "aten.full.default" else 0]
            self.absorbed[node] = None
            return term(number)
        if self._is_computed_here(node, name):
            before = dict(self._read_as), set(self.names), dict(self.absorbed)
            try:
                self.absorbed[node] = None
                if name == "aten.expand.default":
                    return self._operand(node.args[0], own)
                return self._apply(node, name, own)
            except Unsayable:
                self._read_as, self.names, self.absorbed = before
        return self._read(node, shape, own)

    def _is_computed_here(self, node: Any, name: str) -> bool:
        if node not in self._same_memory or is_product(node):
            return False
        if name == "aten.expand.default":
            return True
        if name not in POINTWISE:
            return False
        if value_of(node).dtype == torch.bool:
            return True
        if is_widening(node):  # the narrower is read where it lies
            return True
        known = self.values.keys() | self.absorbed.keys()
        return self.inside is None or all(x in known or x in self.inside for x in node.users)

    def _read(self, node: Any, shape: Shape, own: Tuple[str, ...]) -> Term:
        value = value_of(node)
        wider = value.dtype == torch.float64 and value_of(self.product).dtype != torch.float64
        if wider or value.dtype not in TYPES:
            raise Unsayable(f"the operand {node.name} of type {value.dtype}")
        if value.device != value_of(self.product).device:
            raise Unsayable(f"the operand {node.name} on {value.device}")
        indices = self.sizes.ordered(frozenset(i for s, i in zip(shape, own) if s != 1))
        read = self.sizes.shape(indices)
        if math.prod(read) != math.prod(shape) or "" in indices:
            raise Unsayable(f"the operand {node.name} is repeated along a part of an index")
        strides = viewed_strides(value, read)
        if strides is None or not is_readable(read, strides, "batch" in indices):
            raise Unsayable(f"the operand {node.name} with strides {tuple(value.stride())}")
        key = node, indices
        if key not in self._read_as:
            term_read = operand(self.new_name(node.name), indices)
            self._read_as[key] = Operand(term_read.form.partition("[")[0], node, read, term_read)
        return self._read_as[key].term

    def new_name(self, wanted: str) -> str:
        name = wanted.lower()
        while name in self.names or name in _RESERVED or not re.fullmatch(r"(?!t\d+$)[a-z]\w*", name):
            name = "x_" + name
        self.names.add(name)
        return name
