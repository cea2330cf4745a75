"""Functions of an epilogue that is written in Python.

>>> import numpy as np, kiln
>>> from kiln.expressions import relu, sum
>>> x, w, bias = np.ones((2, 3), np.float32), np.ones((4, 3), np.float32), np.float32([-9, 0, 1, 2])
>>> kiln.matmul(x, w.T, epilogue=lambda acc, b: relu(acc + b), b=bias)[0]
array([0., 3., 4., 5.], dtype=float32)

``acc`` is an element of the product, or ``acc0`` and ``acc1`` those of a gate's two (``lambda acc0,
acc1: silu(acc0) * acc1``; the second operand then has the columns of both); the other parameters are operands by their names: of two
dimensions a matrix over m and n (of three with the index batch before), of one a vector over n, or
over m where n is another number, of none one value. What the function returns becomes D; a
dictionary has D as ``"d"``, where there is one, and what else is stored by its name, a matrix or
what is made of what `sum`, `max`, `min` or `logsumexp` make over ``"n"``, ``"m"`` or ``"mn"``, or of
each ``block`` neighbours of a row; D may be made of that too. Of an operand with fewer rows or columns
than D neighbours share an element. The function is called each time; `text_of` is what it becomes
(docs/guide/expressions.md).

>>> from kiln.expressions import exp, logsumexp
>>> kiln.matmul(x, w.T, epilogue=lambda acc: exp(acc - logsumexp(acc)))[0]  # softmax
array([0.25, 0.25, 0.25, 0.25], dtype=float32)
"""

from __future__ import annotations

import inspect
from typing import Any, Callable, Dict, FrozenSet, List, Optional, Tuple, Union

import numpy as np

Number = Union[int, float]

#: The casts of the language, by the types' names in numpy and PyTorch.
_CASTS = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "float32": "fp32",
    "float8_e4m3fn": "fp8_e4m3",
    "int8": "s8",
}


class Term:
    """What an element's value is made of. Comparisons are for `where` alone."""

    __hash__ = object.__hash__

    def __init__(
        self, form: str, of: Tuple["Term", ...] = (), per: Optional[FrozenSet[str]] = None
    ) -> None:
        self.form, self.of = form, of
        #: The indices that it differs by, and whether it is made of what is reduced.
        self.per: FrozenSet[str] = frozenset(i for x in of for i in x.per) if per is None else per
        self.reduced: bool = any(x.reduced for x in of)

    def __bool__(self) -> bool:
        raise TypeError("a term has no truth value: kiln.expressions.where chooses element by element")

    def __add__(self, other: Operand) -> "Term":
        return _made("({}+{})", self, other)

    def __radd__(self, other: Operand) -> "Term":
        return _made("({}+{})", other, self)

    def __sub__(self, other: Operand) -> "Term":
        return _made("({}-{})", self, other)

    def __rsub__(self, other: Operand) -> "Term":
        return _made("({}-{})", other, self)

    def __mul__(self, other: Operand) -> "Term":
        return _made("({}*{})", self, other)

    def __rmul__(self, other: Operand) -> "Term":
        return _made("({}*{})", other, self)

    def __truediv__(self, other: Operand) -> "Term":
        return _made("({}/{})", self, other)

    def __rtruediv__(self, other: Operand) -> "Term":
        return _made("({}/{})", other, self)

    def __mod__(self, other: Operand) -> "Term":
        return _made("({}%{})", self, other)

    def __neg__(self) -> "Term":
        return _made("(-({}))", self)

    def __abs__(self) -> "Term":
        return _made("abs({})", self)

    def to(self, dtype: Any) -> "Term":
        """Rounded to the nearest value of a type, as ``x.to(torch.bfloat16)`` and ``x.astype("e")``
        say: bf16, fp16, fp32, fp8_e4m3 or s8."""
        try:
            name = str(dtype).rpartition(".")[2] if "torch" in str(dtype) else np.dtype(dtype).name
        except TypeError:
            name = str(dtype)
        if name not in _CASTS:
            raise TypeError(f"dtype = {dtype}: a cast is to one of {', '.join(_CASTS)}")
        return _made(_CASTS[name] + "({})", self)

    astype = to

    def __lt__(self, other: Operand) -> "Term":
        return _made("{}<{}", self, other)

    def __le__(self, other: Operand) -> "Term":
        return _made("{}<={}", self, other)

    def __gt__(self, other: Operand) -> "Term":
        return _made("{}>{}", self, other)

    def __ge__(self, other: Operand) -> "Term":
        return _made("{}>={}", self, other)

    def __eq__(self, other: Operand) -> "Term":  # type: ignore[override]
        return _made("{}=={}", self, other)

    def __ne__(self, other: Operand) -> "Term":  # type: ignore[override]
        return _made("{}!={}", self, other)


Operand = Union[Term, Number]


class Reduced(Term):
    """What is made of many elements: one value of each row, of each column, of each ``block``
    neighbours of a row, or of all."""

    def __init__(self, function: str, of: Operand, over: str, block: Optional[int] = None) -> None:
        if over not in ("m", "n", "mn"):
            raise ValueError(f"over = {over!r}: must be m, n or mn")
        if block is not None and over != "n":
            raise ValueError(f"block = {block}: blocks are of neighbours over n")
        per = [] if over == "mn" else ["m"] if over == "n" else ["n"]
        if block is not None:
            per.append(f"n/{block}")
        super().__init__(f"{function}[{','.join(per)}]({{}})", (_term(of),), frozenset(per))
        self.reduced = True


def _term(x: Operand) -> Term:
    return x if isinstance(x, Term) else Term(repr(float(x)))


def _made(form: str, *of: Operand) -> Term:
    return Term(form, tuple(_term(x) for x in of))


#: The row and the column of the element.
m, n = Term("m", per=frozenset("m")), Term("n", per=frozenset("n"))


def where(condition: Term, x: Operand, y: Operand) -> Term:
    """x where the comparison holds, else y."""
    return _made("where({},{},{})", condition, x, y)


def clamp(x: Operand, low: Operand, high: Operand) -> Term:
    return _made("clamp({},{},{})", x, low, high)


def random(seed: Operand, x: Operand, y: Operand) -> Term:
    """From 0 to 1, the same for the same whole numbers."""
    return _made("random({},{},{})", seed, x, y)


def minimum(x: Operand, y: Operand) -> Term:
    return _made("min({},{})", x, y)


def maximum(x: Operand, y: Operand) -> Term:
    return _made("max({},{})", x, y)


def _of_one(name: str) -> Callable[[Operand], Term]:
    def function(x: Operand) -> Term:
        return _made(name + "({})", x)

    function.__name__ = name
    return function


exp, log, sqrt, rsqrt = _of_one("exp"), _of_one("log"), _of_one("sqrt"), _of_one("rsqrt")
tanh, erf, sigmoid, silu = _of_one("tanh"), _of_one("erf"), _of_one("sigmoid"), _of_one("silu")
gelu, gelu_erf, relu, round = _of_one("gelu"), _of_one("gelu_erf"), _of_one("relu"), _of_one("round")
square, sign, expm1, log1p = _of_one("square"), _of_one("sign"), _of_one("expm1"), _of_one("log1p")
softplus, logsigmoid, mish, selu = (_of_one(f) for f in ("softplus", "logsigmoid", "mish", "selu"))
quick_gelu, hardsigmoid, hardswish = (_of_one(f) for f in ("quick_gelu", "hardsigmoid", "hardswish"))
relu6, softsign = _of_one("relu6"), _of_one("softsign")
bf16, fp16, fp32 = _of_one("bf16"), _of_one("fp16"), _of_one("fp32")
fp8_e4m3, s8 = _of_one("fp8_e4m3"), _of_one("s8")


def leaky_relu(x: Operand, a: Operand = 0.01) -> Term:
    return _made("leaky_relu({},{})", x, a)


def elu(x: Operand, a: Operand = 1.0) -> Term:
    return _made("elu({},{})", x, a)


def softcap(x: Operand, c: Operand) -> Term:
    """c * tanh(x / c)."""
    return _made("softcap({},{})", x, c)


def sum(x: Operand, over: str = "n", block: Optional[int] = None) -> Reduced:
    return Reduced("sum", x, over, block)


def max(x: Operand, over: str = "n", block: Optional[int] = None) -> Reduced:
    return Reduced("max", x, over, block)


def min(x: Operand, over: str = "n", block: Optional[int] = None) -> Reduced:
    return Reduced("min", x, over, block)


def logsumexp(x: Operand, over: str = "n", block: Optional[int] = None) -> Reduced:
    return Reduced("logsumexp", x, over, block)


def even(x: Operand) -> Reduced:
    """Of each two neighbours of a row the value in the even column."""
    return Reduced("even", x, "n", 2)


def odd(x: Operand) -> Reduced:
    """The value in the odd column."""
    return Reduced("odd", x, "n", 2)


def pair(x: Operand, y: Operand) -> Term:
    """x in even columns, y in odd ones."""
    return where(n % 2 == 0, x, y)


class _Text:
    """Terms as statements: what is used twice has one of its own."""

    def __init__(self, results: List[Term]) -> None:
        self.uses: Dict[int, int] = {}
        self.names: Dict[int, str] = {}
        self.statements: List[str] = []
        for each in results:
            self._count(each)

    def _count(self, term: Term) -> None:
        self.uses[id(term)] = self.uses.get(id(term), 0) + 1
        if self.uses[id(term)] == 1:
            for each in term.of:
                self._count(each)

    def value(self, term: Term) -> str:
        if id(term) in self.names:
            return self.names[id(term)]
        text = term.form.format(*(self.value(each) for each in term.of))
        comparison = any(sign in term.form for sign in "<>=!")
        if self.uses[id(term)] < 2 or not term.of or comparison:
            return text
        name = f"kiln_t{len(self.names)}"
        self.statements.append(f"{name}={text}")
        self.names[id(term)] = name
        return name


def _left(term: Term) -> List[str]:
    """The indices of memory that has an element for each value."""
    left = []
    for index in ("m", "n"):
        shared = [each for each in term.per if each[0] == index]
        left += [index] if index in shared or len(shared) > 1 else shared
    return left


def _indices(name: str, shape: Tuple[int, ...], sizes: Tuple[int, int]) -> str:
    rows, columns = sizes
    if len(shape) > 3:
        raise ValueError(f"{name}: an operand has at most three dimensions")
    if not shape:
        return "[]"
    if len(shape) == 1:
        return "[m]" if shape[0] == rows and shape[0] != columns else f"[{_shared('n', columns, shape[0])}]"
    index = f"{_shared('m', rows, shape[-2])},{_shared('n', columns, shape[-1])}"
    return f"[{index}]" if len(shape) == 2 else f"[batch,{index}]"


def _shared(index: str, size: int, given: int) -> str:
    """An index of memory that has ``given`` elements for ``size`` of D."""
    if given <= 1 or given >= size:
        return index
    per = -(-size // given)
    return f"{index}/{per}" if -(-size // per) == given else index


#: What a function's parameters call the products' elements; the last two are a gate's.
_PRODUCTS = ("acc", "acc0", "acc1")


def of_gate(function: Callable[..., Any]) -> bool:
    """Whether it has a gate's products as parameters."""
    return any(name in _PRODUCTS[1:] for name in inspect.signature(function).parameters)


def text_of(
    function: Callable[..., Any], shapes: Dict[str, Tuple[int, ...]], sizes: Tuple[int, int], batched: bool
) -> str:
    """The epilogue's text. ``shapes``: of the operands; ``sizes``: m and n; ``batched``: what is stored
    beside D has the index batch."""
    arguments = {}
    for name in inspect.signature(function).parameters:
        if name in _PRODUCTS:
            arguments[name] = Term(name, per=frozenset("mn"))
        elif name in shapes:
            index = _indices(name, shapes[name], sizes)
            arguments[name] = Term(name + index, per=frozenset(index[1:-1].split(",")) - {"", "batch"})
        else:
            raise TypeError(f"{name} is not given: the epilogue reads {name}")
    made = function(**arguments)
    stored: Dict[str, Any] = made if isinstance(made, dict) else {"d": made}
    values = {name: _term(x) for name, x in stored.items()}
    text = _Text(list(values.values()))
    parts = []
    for name, term in values.items():
        value = text.value(term)
        if name == "d":
            parts.append(f"d={value}")
            continue
        index = ",".join((["batch"] if batched else []) + (_left(term) if term.reduced else ["m", "n"]))
        parts.append(f"{name}[{index}]={value}")
    return ";".join(text.statements + parts)
