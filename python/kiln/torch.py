"""kiln's products for tensors of PyTorch, with gradients.

>>> import torch
>>> from kiln.torch import linear
>>> x, w = torch.ones(2, 3), torch.ones(4, 3, requires_grad=True)
>>> linear(x, w, activation="relu").sum().backward()
>>> w.grad[0]
tensor([2., 2., 2.])

Types and layouts are those of `kiln.matmul`, which says so where it cannot read a tensor as it lies.
``torch.ops.kiln.matmul``, ``torch.ops.kiln.linear`` and ``torch.ops.kiln.matmul_epilogue`` are the
operators, for ``torch.compile`` too.
`compile_pass` fuses what ``torch.compile`` finds behind products.
`Linear` is a module, and `patch` makes one of every ``torch.nn.Linear`` of a model:

>>> model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
>>> patch(model)
['0', '2']
>>> type(model[2])
<class 'kiln.torch.Linear'>
"""

from __future__ import annotations

import contextlib
import os
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple, Union

import torch

from . import _kiln
from .compile_pass import CompilePass

_library = torch.library.Library("kiln", "DEF")
_library.define("matmul(Tensor a, Tensor b) -> Tensor")
_library.define("linear(Tensor x, Tensor weight, Tensor? bias, str activation) -> Tensor")

_library.define(
    "matmul_epilogue(Tensor a, Tensor b, str epilogue, str[] names, Tensor[] operands, *, "
    "ScalarType? out_dtype=None, str numerics='ieee', Tensor? scale_a=None, Tensor? scale_b=None, "
    "float[] numbers=[]) -> Tensor[]"
)

_ACTIVATIONS = {
    "none": lambda x: x,
    "relu": torch.relu,
    "gelu": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
    "gelu_erf": torch.nn.functional.gelu,
    "silu": torch.nn.functional.silu,
}


def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """``a @ b`` of matrices, or of batches of them (see `kiln.matmul`)."""
    if _is_direct(a, b):
        return _product(a, b)
    return torch.ops.kiln.matmul(a, b)


def matmul_epilogue(
    a: torch.Tensor,
    b: torch.Tensor,
    epilogue: str,
    /,
    *,
    out_dtype: Optional[torch.dtype] = None,
    numerics: str = "ieee",
    scale_a: Optional[torch.Tensor] = None,
    scale_b: Optional[torch.Tensor] = None,
    **operands: Union[torch.Tensor, float],
) -> Union[torch.Tensor, Dict[str, torch.Tensor]]:
    """``a @ b`` with any function behind it, written as a line: ``d=gelu(acc+b[n])+r[m,n]``. Operands
    are tensors by their names, or numbers where they have no index (``s[]``). What is stored beside D,
    or without one, comes by name in a dictionary. Of a gate, ``d=silu(acc0)*acc1``, b has both products' columns, those of acc0 first.
    The named arguments are those of `kiln.matmul`. Without gradients.

    >>> x, w = torch.ones(2, 3), torch.ones(3, 4)
    >>> matmul_epilogue(x, w, "d=acc*s[m];q[m]=sum(acc)", s=torch.tensor([1.0, 2.0]))["q"]
    tensor([12., 12.])
    """
    names = [name for name, _, _ in _kiln.stored_by(epilogue)]
    tensors = {name: x for name, x in operands.items() if isinstance(x, torch.Tensor)}
    numbers = {name: x for name, x in operands.items() if not isinstance(x, torch.Tensor)}
    stored = torch.ops.kiln.matmul_epilogue(
        a,
        b,
        epilogue,
        [*tensors, *numbers],
        list(tensors.values()),
        out_dtype=out_dtype,
        numerics=numerics,
        scale_a=scale_a,
        scale_b=scale_b,
        numbers=list(numbers.values()),
    )
    return stored[0] if names == ["d"] else dict(zip(names, stored))


def linear(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: Optional[torch.Tensor] = None,
    activation: str = "none",
) -> torch.Tensor:
    """``activation(x @ weight.T + bias)``: x is [..., k], weight [n, k], bias [n]. The activation is
    part of the product where no gradient is asked for."""
    given = (x, weight) if bias is None else (x, weight, bias)
    if _is_direct(*given):
        return _linear(x, weight, bias, activation)
    if not (torch.is_grad_enabled() and any(t.requires_grad for t in given)):
        return torch.ops.kiln.linear(x, weight, bias, activation)
    return _ACTIVATIONS[activation](torch.ops.kiln.linear(x, weight, bias, "none"))


class Linear(torch.nn.Linear):
    """``torch.nn.Linear`` by `linear`, with an activation if one is named: the same parameters and
    the same state dict."""

    activation = "none"

    def __init__(self, *arguments: Any, activation: str = "none", **named: Any) -> None:
        super().__init__(*arguments, **named)
        if activation not in _ACTIVATIONS:
            known = ", ".join(_ACTIVATIONS)
            raise ValueError(f"activation = {activation!r}: must be one of {known}")
        self.activation = activation

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return linear(x, self.weight, self.bias, self.activation)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, activation={self.activation}"


def patch(
    model: torch.nn.Module, wanted: Callable[[str, torch.nn.Linear], bool] = lambda name, module: True
) -> List[str]:
    """Makes a `Linear` of every ``torch.nn.Linear`` of ``model`` (and of itself) that ``wanted``
    accepts, in place: parameters, hooks and names stay. Returns their names. Subclasses of
    ``torch.nn.Linear`` have reasons of their own and are left alone."""
    names = []
    for name, module in model.named_modules():
        if type(module) is torch.nn.Linear and wanted(name, module):
            module.__class__ = Linear
            names.append(name)
    return names


def compile_pass(
    *,
    bare: bool = False,
    margin: float = 0.01,
    tune_seconds: float = 5.0,
    races: Union[str, "os.PathLike[str]", None] = None,
    cudagraphs: Optional[bool] = None,
) -> CompilePass:
    """A pass for ``torch.compile`` that lets kiln compute a product together with the pointwise
    operators and the reductions of rows and columns behind it, wherever kiln is faster than Inductor.
    Forward and backward graphs that are compiled within the context have it; passes that were
    installed before run first::

        with kiln.torch.compile_pass() as fused:
            model = torch.compile(model)
            model(x).sum().backward()
        print(*fused.report, sep="\\n")

    What ``mm``, ``bmm``, ``addmm``, ``baddbmm`` or ``_scaled_mm`` and its followers compute becomes a call of
    ``torch.ops.kiln.matmul_epilogue``. Before, the problem is tuned for ``tune_seconds`` unless the
    database has it, and raced: the operators as Inductor compiles them against kiln's call, on random
    operands, in turns. kiln is taken if it is faster by ``margin`` and what both compute agrees within
    rounding; of several regions behind a product, the one that saves most. The outcome is kept in the file ``races`` (default: ``torch.races`` beside kiln's
    database; ``":memory:"``: nowhere), by device, versions, operators and problem: the next process
    neither tunes nor races. ``bare``: products with nothing behind them are raced too.
    ``cudagraphs``: races run as CUDA graphs; without them the host's time counts (default: as
    Inductor's option ``triton.cudagraphs`` says).

    A region's values are fp32 (fp64 in products of it) until they are stored: roundings between its
    operators are left out, so that results differ within rounding. ``report`` has a line for each
    region that was found, with its times or the reason why it was left alone. Products with symbolic
    sizes and of integers are left alone, and whatever the language of epilogues cannot say
    (docs/guide/expressions.md). A graph that Inductor takes from its cache is not looked at again.
    """
    return CompilePass(
        bare=bare, margin=margin, tune_seconds=tune_seconds, races=races, cudagraphs=cudagraphs
    )


# PyTorch tells its current stream by DLPack's C functions since 2.10.
_TELLS_STREAM = hasattr(torch.Tensor, "__dlpack_c_exchange_api__")


def _product(a: torch.Tensor, b: torch.Tensor, /, **arguments: Any) -> torch.Tensor:
    if a.is_cuda and not _TELLS_STREAM:
        arguments["stream"] = torch.cuda.current_stream(a.device).cuda_stream
    if a.requires_grad:
        a = a.detach()
    if b.requires_grad:
        b = b.detach()
    return _kiln.matmul(a, b, **arguments)


def _find_watchers() -> Optional[Tuple[Callable[[], Any], ...]]:
    """PyTorch 2's functions that tell whether somebody watches operators: the compiler, a mode,
    vmap. None: this PyTorch has not all of them."""
    core: Any = torch._C
    try:
        return (
            torch.compiler.is_compiling,
            core._len_torch_dispatch_stack,
            core._len_torch_function_stack,
            core._functorch.peek_interpreter_stack,
        )
    except AttributeError:
        return None


_WATCHERS = _find_watchers()

_PLAIN = (torch.Tensor, torch.nn.Parameter)


def _is_direct(*tensors: torch.Tensor) -> bool:
    """Whether the operator may be left out: PyTorch takes several microseconds to call one that is
    written in Python. No gradient is asked for, and nobody watches."""
    if _WATCHERS is None:
        return False
    for watches in _WATCHERS:
        if watches():
            return False
    grad = torch.is_grad_enabled()
    for t in tensors:
        if type(t) not in _PLAIN or (grad and t.requires_grad):
            return False
    return True


def _linear(
    x: torch.Tensor, weight: torch.Tensor, bias: Optional[torch.Tensor], activation: str
) -> torch.Tensor:
    terms = {} if bias is None else {"bias": bias.detach()}
    if x.dim() == 2:
        return _product(x, weight.T, activation=activation, **terms)
    rows = x.detach().reshape(-1, x.shape[-1])
    result = _product(rows, weight.T, activation=activation, **terms)
    return result.reshape(*x.shape[:-1], weight.shape[0])


@contextlib.contextmanager
def _below_autograd() -> Iterator[None]:
    """Operators called meanwhile are those of the device. (PyTorch 1.13's guard, which ends with
    its object, is no context manager yet.)"""
    guard = torch._C._AutoDispatchBelowAutograd()
    if not hasattr(guard, "__enter__"):
        try:
            yield
        finally:
            del guard
    else:
        with guard:
            yield


class _Matmul(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        context.save_for_backward(a, b)
        with _below_autograd():
            return torch.ops.kiln.matmul(a, b)

    @staticmethod
    def backward(context: Any, *gradients: torch.Tensor) -> Tuple[Optional[torch.Tensor], ...]:
        a, b = context.saved_tensors
        # A sum's gradient has strides of 0.
        d = gradients[0].contiguous()
        wanted_a, wanted_b = context.needs_input_grad
        of_a = matmul(d, b.mT).reshape(a.shape) if wanted_a else None
        if not wanted_b:
            return of_a, None
        if b.dim() == 2:
            a, d = a.reshape(-1, a.shape[-1]), d.reshape(-1, d.shape[-1])
        return of_a, matmul(a.mT, d).reshape(b.shape)


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(
        context: Any,
        x: torch.Tensor,
        weight: torch.Tensor,
        bias: Optional[torch.Tensor],
        activation: str,
    ) -> torch.Tensor:
        if activation != "none":
            raise ValueError(f"activation = {activation!r}: has no gradient; kiln.torch.linear has")
        context.save_for_backward(x, weight)
        with _below_autograd():
            return torch.ops.kiln.linear(x, weight, bias, "none")

    @staticmethod
    def backward(context: Any, *gradients: torch.Tensor) -> Tuple[Optional[torch.Tensor], ...]:
        x, weight = context.saved_tensors
        wanted_x, wanted_weight, wanted_bias = context.needs_input_grad[:3]
        d = gradients[0].reshape(-1, weight.shape[0]).contiguous()
        rows = x.reshape(-1, weight.shape[1])
        of_x = matmul(d, weight).reshape(x.shape) if wanted_x else None
        of_weight = matmul(d.T, rows) if wanted_weight else None
        return of_x, of_weight, d.sum(0) if wanted_bias else None, None


def _matmul_with_gradient(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return _Matmul.apply(a, b)


def _linear_with_gradient(
    x: torch.Tensor, weight: torch.Tensor, bias: Optional[torch.Tensor], activation: str
) -> torch.Tensor:
    asked = any(t is not None and t.requires_grad for t in (x, weight, bias))
    if asked and torch.is_grad_enabled():
        return _Linear.apply(x, weight, bias, activation)
    with _below_autograd():
        return torch.ops.kiln.linear(x, weight, bias, activation)


def _matmul_epilogue(
    a: torch.Tensor,
    b: torch.Tensor,
    epilogue: str,
    names: List[str],
    operands: List[torch.Tensor],
    *,
    out_dtype: Optional[torch.dtype] = None,
    numerics: str = "ieee",
    scale_a: Optional[torch.Tensor] = None,
    scale_b: Optional[torch.Tensor] = None,
    numbers: Sequence[float] = (),
) -> List[torch.Tensor]:
    given: List[Any] = [*(x.detach() for x in operands), *numbers]
    named: Dict[str, Any] = dict(zip(names, given))
    for name, scale in (("scale_a", scale_a), ("scale_b", scale_b)):
        if scale is not None:
            named[name] = scale.detach()
    if out_dtype is not None:
        named["out_dtype"] = out_dtype
    if numerics != "ieee":
        named["numerics"] = numerics
    made = _product(a, b, epilogue=epilogue, **named)
    if not isinstance(made, dict):
        return [made]
    return [made[name] for name, _, _ in _kiln.stored_by(epilogue)]


def _matmul_epilogue_without_gradient(
    a: torch.Tensor,
    b: torch.Tensor,
    epilogue: str,
    names: List[str],
    operands: List[torch.Tensor],
    **named: Any,
) -> List[torch.Tensor]:
    scales = [named[x] for x in ("scale_a", "scale_b") if named.get(x) is not None]
    if torch.is_grad_enabled() and any(t.requires_grad for t in (a, b, *operands, *scales)):
        raise RuntimeError(
            "kiln.torch.matmul_epilogue has no gradient: call it under torch.no_grad(), or in the "
            "forward and the backward of a torch.autograd.Function"
        )
    with _below_autograd():
        return torch.ops.kiln.matmul_epilogue(a, b, epilogue, names, operands, **named)


def _type_of_d(a: torch.Tensor) -> torch.dtype:
    """D's type where none is asked for."""
    if not a.is_floating_point():
        return torch.int32
    return torch.bfloat16 if a.element_size() == 1 else a.dtype


# What torch.compile asks for: the result's shape and type.
def _matmul_epilogue_shapes(
    a: torch.Tensor,
    b: torch.Tensor,
    epilogue: str,
    names: List[str],
    operands: List[torch.Tensor],
    *,
    out_dtype: Optional[torch.dtype] = None,
    numerics: str = "ieee",
    scale_a: Optional[torch.Tensor] = None,
    scale_b: Optional[torch.Tensor] = None,
    numbers: Sequence[float] = (),
) -> List[torch.Tensor]:
    # Of one type: PyTorch multiplies no codes of two.
    product = torch.matmul(a.to(torch.float32), b.to(torch.float32))
    d = product.new_empty(product.shape, dtype=out_dtype or _type_of_d(a))
    if _kiln.of_gate(epilogue):
        d = d.new_empty((*d.shape[:-1], d.shape[-1] // 2))
    sizes = {"m": d.shape[-2], "n": d.shape[-1], "batch": d.shape[0]}
    wide = torch.float64 if d.dtype == torch.float64 else torch.float32
    made = []
    for name, indices, dtype in _kiln.stored_by(epilogue):
        if name == "d":
            made.append(d)
            continue
        matrix = "m" in indices and "n" in indices
        own = d.dtype if matrix and d.dtype in (torch.float16, torch.bfloat16) else wide
        shape = []
        for index in indices:
            size, _, shared = index.partition("/")
            shape.append(-(-sizes[size] // int(shared or 1)))
        made.append(d.new_empty(shape, dtype=own if dtype is None else getattr(torch, dtype)))
    return made


def _matmul_shape(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.matmul(a, b)


def _linear_shape(
    x: torch.Tensor, weight: torch.Tensor, bias: Optional[torch.Tensor], activation: str
) -> torch.Tensor:
    return x.new_empty((*x.shape[:-1], weight.shape[0]))


for _device in ("CPU", "CUDA"):
    _library.impl("matmul", _product, _device)
    _library.impl("linear", _linear, _device)
    _library.impl("matmul_epilogue", _matmul_epilogue, _device)
_library.impl("matmul", _matmul_with_gradient, "Autograd")
_library.impl("linear", _linear_with_gradient, "Autograd")
_library.impl("matmul_epilogue", _matmul_epilogue_without_gradient, "Autograd")
_library.impl("matmul", _matmul_shape, "Meta")
_library.impl("matmul_epilogue", _matmul_epilogue_shapes, "Meta")
_library.impl("linear", _linear_shape, "Meta")
