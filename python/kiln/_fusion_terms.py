"""What operators of PyTorch are in the language of epilogues (docs/guide/expressions.md): a term for
each value, and the text of several. Nothing here knows a graph.
"""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, FrozenSet, List, Optional, Sequence, Tuple, Union

_COMPARISON, _SUM, _PRODUCT, _ATOM = range(4)


class Unsayable(Exception):
    """The language has no words for it. The message says for what."""


class Term:
    """How one value is computed from others. ``per`` are the indices that it differs by, ``reduced``
    says that it is made of what a reduction made."""

    __slots__ = ("form", "of", "level", "needs", "per", "reduced")

    def __init__(
        self,
        form: str,
        of: Tuple["Term", ...] = (),
        level: int = _ATOM,
        needs: Tuple[int, ...] = (),
        per: Optional[FrozenSet[str]] = None,
    ) -> None:
        self.form, self.of, self.level = form, of, level
        #: How tightly each part must bind to stand without brackets.
        self.needs = needs or (_SUM,) * len(of)
        self.per: FrozenSet[str] = frozenset(i for x in of for i in x.per) if per is None else per
        self.reduced: bool = any(x.reduced for x in of)

    @property
    def is_reduction(self) -> bool:
        return self.reduced and not any(x.reduced for x in self.of)

    @property
    def is_rounding(self) -> bool:
        return self.form in _ROUNDINGS

    @property
    def is_condition(self) -> bool:
        return self.level == _COMPARISON

    def is_number(self, value: float) -> bool:
        return not self.of and self.form == number_text(value)


Value = Union[Term, int, float]

_ROUNDINGS = ("bf16({})", "fp16({})")


def rounded(x: Term, dtype: str) -> Term:
    """``x`` as a tensor of that type has it."""
    return Term(f"{dtype}({{}})", (x,))


def keeps_elements(x: Term) -> bool:
    """Whether ``x`` is made of what a reduction made and of elements of the product beside it: kiln keeps
    these until all are reduced."""
    left = [x] if x.reduced else []
    while left:
        one = left.pop()
        if one.form == "acc":
            return True
        if not one.is_reduction:
            left.extend(one.of)
    return False


def number_text(value: float) -> str:
    if math.isfinite(value) and value == int(value) and abs(value) < 1e15:
        return str(int(value))
    return repr(float(value))


def term(x: Value) -> Term:
    """``x`` as a value. A condition is none: `where` alone takes it."""
    if isinstance(x, Term):
        if x.is_condition:
            raise Unsayable("a comparison whose result is a value")
        return x
    if isinstance(x, bool) or not isinstance(x, (int, float)):
        raise Unsayable(f"the argument {x!r}")
    return Term(number_text(x), level=_ATOM if x >= 0 else _SUM)


def operand(name: str, indices: Sequence[str]) -> Term:
    """The operand ``name``: ``b[n]``."""
    return Term(f"{name}[{','.join(indices)}]", per=frozenset(indices))


def _number(x: Any) -> float:
    if isinstance(x, bool) or not isinstance(x, (int, float)):
        raise Unsayable(f"the argument {x!r}")
    return x


def _is_less_maximum(x: Term) -> bool:
    """``y-max[m](…)``, from which PyTorch makes logsumexp and softmax. What follows from it is written
    without the maximum again, since kiln has a logsumexp."""
    return x.form == "{}-{}" and x.of[1].form.startswith("max[")


def call(function: str, *of: Value) -> Term:
    parts = tuple(term(x) for x in of)
    if function == "log" and parts[0].form == "exp({})" and _is_less_maximum(parts[0].of[0]):
        return parts[0].of[0]
    return Term(f"{function}({','.join(['{}'] * len(parts))})", parts)


def add(x: Value, y: Value, *, alpha: float = 1) -> Term:
    left, right = term(x), term(y) if alpha == 1 else mul(y, _number(alpha))
    if _is_less_maximum(left) and left.of[1] is right:
        return left.of[0]
    if _is_less_maximum(right) and right.of[1] is left:
        return right.of[0]
    return Term("{}+{}", (left, right), _SUM, (_SUM, _PRODUCT))


def sub(x: Value, y: Value, *, alpha: float = 1) -> Term:
    left, right = term(x), term(y) if alpha == 1 else mul(y, _number(alpha))
    # (x-max)-(logsumexp-max), as log_softmax has it.
    if _is_less_maximum(left) and _is_less_maximum(right) and left.of[1] is right.of[1]:
        return sub(left.of[0], right.of[0])
    return Term("{}-{}", (left, right), _SUM, (_SUM, _PRODUCT))


def mul(x: Value, y: Value) -> Term:
    return Term("{}*{}", (term(x), term(y)), _PRODUCT, (_PRODUCT, _ATOM))


def div(x: Value, y: Value, *, rounding_mode: Optional[str] = None) -> Term:
    if rounding_mode is not None:
        raise Unsayable(f"div with rounding_mode={rounding_mode}")
    left, right = term(x), term(y)
    # exp(x-max)/exp(logsumexp-max), as softmax has it.
    if left.form == right.form == "exp({})":
        one, other = left.of[0], right.of[0]
        if _is_less_maximum(one) and _is_less_maximum(other) and one.of[1] is other.of[1]:
            return call("exp", sub(one.of[0], other.of[0]))
    return Term("{}/{}", (left, right), _PRODUCT, (_PRODUCT, _ATOM))


def neg(x: Value) -> Term:
    return Term("-{}", (term(x),), _SUM, (_ATOM,))


def compare(sign: str) -> Callable[[Value, Value], Term]:
    return lambda x, y: Term(f"{{}}{sign}{{}}", (term(x), term(y)), _COMPARISON)


def where(condition: Value, x: Value, y: Value) -> Term:
    chosen, other = term(x), term(y)
    holds = condition
    if not isinstance(holds, Term) or not holds.is_condition:
        raise Unsayable("where with a condition that is a tensor")
    # A comparison with a NaN does not hold, which is not so of PyTorch's !=.
    if holds.form == "{}!={}":
        holds, chosen, other = Term("{}=={}", holds.of, _COMPARISON), other, chosen
    # What keeps logsumexp of PyTorch from inf-inf. kiln's has that in itself.
    if holds.form == "{}=={}" and chosen.is_number(0) and holds.of[1].is_number(math.inf):
        if holds.of[0].form == "abs({})" and holds.of[0].of[0] is other:
            return other
    parts = (holds, chosen, other)
    return Term("where({},{},{})", parts, needs=(_COMPARISON, _SUM, _SUM))


def power(x: Value, exponent: Any) -> Term:
    base, wanted = term(x), _number(exponent)
    if wanted < 0 and wanted != -0.5:
        return div(1, power(base, -wanted))
    if wanted == 0.5:
        return call("sqrt", base)
    if wanted == -0.5:
        return call("rsqrt", base)
    if wanted not in (1, 2, 3, 4):
        raise Unsayable(f"the exponent {exponent!r}")
    result = base
    for _ in range(int(wanted) - 1):
        result = mul(result, base)
    return result


def clamp(x: Value, low: Optional[Value] = None, high: Optional[Value] = None) -> Term:
    if low is None and high is None:
        return term(x)
    if high is None:
        return call("max", x, term(low if low is not None else 0))
    return call("min", x, high) if low is None else call("clamp", x, low, high)


def gelu(x: Value, *, approximate: str = "none") -> Term:
    return call("gelu" if approximate == "tanh" else "gelu_erf", x)


def threshold_backward(gradient: Value, x: Value, threshold: Any) -> Term:
    return where(compare("<=")(x, _number(threshold)), 0, gradient)


def softplus(x: Value, beta: Any = 1, threshold: Any = 20) -> Term:
    if threshold != 20:
        raise Unsayable(f"softplus with threshold={threshold}")
    if beta == 1:
        return call("softplus", x)
    return div(call("softplus", mul(x, _number(beta))), _number(beta))


def elu(x: Value, alpha: Any = 1, scale: Any = 1, input_scale: Any = 1) -> Term:
    if input_scale != 1:
        raise Unsayable(f"elu with input_scale={input_scale}")
    result = call("elu", x, _number(alpha))
    return result if scale == 1 else mul(result, _number(scale))


def same(x: Value, *_: Any, **__: Any) -> Term:
    """The value itself: rounding on the way is left out."""
    return where(x, 1, 0) if isinstance(x, Term) and x.is_condition else term(x)


def _of_one(function: str) -> Callable[[Value], Term]:
    return lambda x: call(function, x)


def _of_two(function: str) -> Callable[[Value, Value], Term]:
    return lambda x, y: call(function, x, y)


_ARITHMETIC: Dict[str, Callable[..., Term]] = {"add": add, "sub": sub, "mul": mul, "div": div}

#: The operators whose result at an element is made of their arguments at that element.
POINTWISE: Dict[str, Callable[..., Term]] = {
    **{
        f"aten.{name}.default": _of_one(name)
        for name in (
            "abs exp expm1 log log1p sqrt rsqrt tanh erf sigmoid silu relu round sign mish hardsigmoid "
            "hardswish"
        ).split()
    },
    **{
        f"aten.{name}.{kind}": compare(sign)
        for name, sign in zip("lt le gt ge eq ne".split(), "< <= > >= == !=".split())
        for kind in ("Tensor", "Scalar")
    },
    **{
        f"aten.{name}.{kind}": function
        for name, function in _ARITHMETIC.items()
        for kind in ("Tensor", "Scalar")
    },
    "aten.addcdiv.default": lambda x, y, z, *, value=1: add(x, mul(div(y, z), _number(value))),
    "aten.addcmul.default": lambda x, y, z, *, value=1: add(x, mul(mul(y, z), _number(value))),
    "aten.clamp.default": clamp,
    "aten.clamp.Tensor": clamp,
    "aten.clamp_max.default": lambda x, high: clamp(x, None, high),
    "aten.clamp_min.default": lambda x, low: clamp(x, low),
    "aten.elu.default": elu,
    "aten.gelu.default": gelu,
    "aten.hardtanh.default": lambda x, low=-1, high=1: clamp(x, low, high),
    "aten.leaky_relu.default": lambda x, slope=0.01: call("leaky_relu", x, _number(slope)),
    "aten.masked_fill.Scalar": lambda x, mask, value: where(mask, value, x),
    "aten.maximum.default": _of_two("max"),
    "aten.minimum.default": _of_two("min"),
    "aten.neg.default": neg,
    "aten.pow.Tensor_Scalar": power,
    "aten.reciprocal.default": lambda x: div(1, x),
    "aten.rsub.Scalar": lambda x, y, alpha=1: sub(y, x, alpha=alpha),
    "aten.rsub.Tensor": lambda x, y, alpha=1: sub(y, x, alpha=alpha),
    "aten.softplus.default": softplus,
    "aten.square.default": lambda x: power(x, 2),
    "aten.threshold_backward.default": threshold_backward,
    "aten.where.ScalarOther": where,
    "aten.where.ScalarSelf": where,
    "aten.where.self": where,
    "aten._to_copy.default": same,
    "aten.alias.default": same,
    "aten.clone.default": same,
    "aten.detach.default": same,
    "prims.convert_element_type.default": same,
    "prims.fma.default": lambda x, y, z: add(mul(x, y), z),
}

#: The reductions: the language's function, and whether the sum is divided by its number.
REDUCTIONS: Dict[str, Tuple[str, bool]] = {
    "aten.amax.default": ("max", False),
    "aten.amin.default": ("min", False),
    "aten.logsumexp.default": ("logsumexp", False),
    "aten.max.default": ("max", False),
    "aten.mean.default": ("sum", True),
    "aten.mean.dim": ("sum", True),
    "aten.min.default": ("min", False),
    "aten.sum.default": ("sum", False),
    "aten.sum.dim_IntList": ("sum", False),
}


def reduce(function: str, x: Term, left: FrozenSet[str]) -> Term:
    """``function`` of ``x`` over the indices that are not ``left``."""
    form = f"{function}[{','.join(i for i in ('m', 'n') if i in left)}]({{}})"
    if function == "sum" and x.form == "exp({})" and x.of[0].form == "{}-{}":
        value, largest = x.of[0].of
        maximum = form.replace("sum", "max", 1)
        if largest.form == maximum and largest.of[0] is value:
            return call("exp", sub(reduce("logsumexp", value, left), largest))
    if x.reduced:
        raise Unsayable("a reduction of what is made of another reduction")
    result = Term(form, (x,), per=left)
    result.reduced = True
    return result


class Text:
    """Terms as statements: what is used twice has a name. Rounding on the way is written where kiln then
    keeps elements in 16 bits, and left out elsewhere."""

    def __init__(self, results: Sequence[Term]) -> None:
        self._rounds = any(keeps_elements(x) for x in results)
        self._uses: Dict[int, int] = {}
        self._names: Dict[int, str] = {}
        self.statements: List[str] = []
        for each in results:
            self._count(each)

    def _said(self, x: Term) -> Term:
        while x.is_rounding and not self._rounds:
            x = x.of[0]
        return x

    def _count(self, x: Term) -> None:
        x = self._said(x)
        self._uses[id(x)] = self._uses.get(id(x), 0) + 1
        if self._uses[id(x)] == 1:
            for each in x.of:
                self._count(each)

    def of(self, x: Term) -> str:
        return self._written(x)[0]

    def _written(self, x: Term) -> Tuple[str, int]:
        x = self._said(x)
        if id(x) in self._names:
            return self._names[id(x)], _ATOM
        if not x.of:
            if x.form in ("inf", "-inf", "nan"):
                raise Unsayable(f"the number {x.form}")
            return x.form, x.level
        parts = []
        for each, needed in zip(x.of, x.needs):
            text, level = self._written(each)
            parts.append(text if level >= needed else f"({text})")
        text = x.form.format(*parts)
        if self._uses[id(x)] < 2 or x.is_condition:
            return text, x.level
        name = f"t{len(self._names)}"
        self.statements.append(f"{name}={text}")
        self._names[id(x)] = name
        return name, _ATOM
