"""Functions of an epilogue that is written in Python.

>>> import numpy as np, kiln
>>> from kiln.expressions import relu, sum
>>> x, w, bias = np.ones((2, 3), np.float32), np.ones((4, 3), np.float32), np.float32([-9, 0, 1, 2])
>>> kiln.matmul(x, w.T, epilogue=lambda acc, b: relu(acc + b), b=bias)[0]
array([0., 3., 4., 5.], dtype=float32)

``acc`` is an element of the product, the other parameters are operands by their names: of two
dimensions a matrix over m and n (of three with the index batch before), of one a vector over n, or
over m where n is another number, of none one value. What the function returns becomes D; a
dictionary has D as ``"d"``, where there is one, and what else is stored by its name, a matrix or
what `sum`, `max`, `min` or `logsumexp` make over ``"n"``, ``"m"`` or ``"mn"``. The function is
called each time; `text_of` is what it becomes (docs/guide/expressions.md).
"""

from __future__ import annotations

import inspect
from typing import Any, Callable, Dict, List, Tuple, Union

Number = Union[int, float]


class Term:
    """What an element's value is made of. Comparisons are for `where` alone."""

    __hash__ = object.__hash__

    def __init__(self, form: str, of: Tuple["Term", ...] = ()) -> None:
        self.form, self.of = form, of

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

    def __neg__(self) -> "Term":
        return _made("(-({}))", self)

    def __abs__(self) -> "Term":
        return _made("abs({})", self)

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


class Reduced:
    """What is made of many elements."""

    def __init__(self, function: str, of: Operand, over: str) -> None:
        if over not in ("m", "n", "mn"):
            raise ValueError(f"over = {over!r}: must be m, n or mn")
        self.function, self.value, self.over = function, _term(of), over


def _term(x: Operand) -> Term:
    return x if isinstance(x, Term) else Term(repr(float(x)))


def _made(form: str, *of: Operand) -> Term:
    return Term(form, tuple(_term(x) for x in of))


#: The row and the column of the element.
m, n = Term("m"), Term("n")


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


def sum(x: Operand, over: str = "n") -> Reduced:
    return Reduced("sum", x, over)


def max(x: Operand, over: str = "n") -> Reduced:
    return Reduced("max", x, over)


def min(x: Operand, over: str = "n") -> Reduced:
    return Reduced("min", x, over)


def logsumexp(x: Operand, over: str = "n") -> Reduced:
    return Reduced("logsumexp", x, over)


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


def _indices(name: str, shape: Tuple[int, ...], sizes: Tuple[int, int]) -> str:
    rows, columns = sizes
    if len(shape) > 3:
        raise ValueError(f"{name}: an operand has at most three dimensions")
    if len(shape) == 1:
        return "[n]" if shape[0] == columns or shape[0] != rows else "[m]"
    return ("[]", "", "[m,n]", "[batch,m,n]")[len(shape)]


def text_of(
    function: Callable[..., Any], shapes: Dict[str, Tuple[int, ...]], sizes: Tuple[int, int], batched: bool
) -> str:
    """The epilogue's text. ``shapes``: of the operands; ``sizes``: m and n; ``batched``: what is stored
    beside D has the index batch."""
    arguments = {}
    for name in inspect.signature(function).parameters:
        if name == "acc":
            arguments[name] = Term("acc")
        elif name in shapes:
            arguments[name] = Term(name + _indices(name, shapes[name], sizes))
        else:
            raise TypeError(f"{name} is not given: the epilogue reads {name}")
    made = function(**arguments)
    stored: Dict[str, Any] = made if isinstance(made, dict) else {"d": made}
    values: Dict[str, Term] = {}
    functions: Dict[str, Tuple[str, str]] = {}  # of what is made of many elements, and over what
    for name, x in stored.items():
        if isinstance(x, Reduced):
            functions[name] = (x.function, x.over)
            values[name] = x.value
        else:
            values[name] = _term(x)
    if "d" in functions:
        raise TypeError("d is of each element: what is made of many has a name of its own")
    text = _Text(list(values.values()))
    parts = []
    for name, term in values.items():
        value = text.value(term)
        if name == "d":
            parts.append(f"d={value}")
            continue
        function_name, over = functions.get(name, ("", ""))
        left = [index for index in ("m", "n") if index not in over]
        index = ",".join((["batch"] if batched else []) + left)
        parts.append(f"{name}[{index}]={function_name}({value})" if over else f"{name}[{index}]={value}")
    return ";".join(text.statements + parts)
