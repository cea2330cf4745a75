"""Runs a race: both graphs compiled by Inductor, on the same operands, in turns."""

from __future__ import annotations

import contextlib
import statistics
import threading
import time
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import torch

from ._races import Result

Way = Callable[..., Sequence[Any]]

#: Seconds of all rounds and of a turn; the fewest and most rounds.
_SECONDS, _SHORTEST, _FEWEST, _MOST = 0.5, 1e-3, 15, 200
#: Bytes that all sets of operands have together, so that none is left in a cache by the call before.
_ROTATED = 150_000_000
#: What codes of eight bits may differ by, relative to their size: neighbours are an eighth apart, and a
#: rounding before them decides between two.
_OF_CODES = 4e-2
#: Beyond it the compiler is taken to wait for a lock of the thread that waits for it.
_PATIENCE = 600.0


def operands_of(
    inputs: Sequence[Any], *, positive: bool = False, scales: Sequence[int] = (), seed: int = 1
) -> List[Any]:
    """Random tensors that lie as ``inputs`` do. B is scaled so that the product's elements are of
    the size of A's; what is at the places ``scales`` is near 1."""
    made = []
    for place, like in enumerate(inputs):
        generator = torch.Generator(device=like.device).manual_seed(1000 * seed + place)
        size = 1 + sum((n - 1) * s for n, s in zip(like.shape, like.stride()) if n)
        if like.dtype == torch.bool:
            memory = torch.rand(size, device=like.device, generator=generator) < 0.5
        else:
            memory = torch.randn(size, device=like.device, generator=generator)
            if place == 1:
                memory *= like.shape[-2] ** -0.5
            elif place in scales:
                memory = memory.abs_().add_(0.5)
            elif positive and place > 1:
                memory = memory.abs_().add_(0.1)
            memory = memory.to(like.dtype)
        made.append(memory.as_strided(like.shape, like.stride()))
    return made


def compiled_by_inductor(module: Any, operands: Sequence[Any]) -> Way:
    """The module as ``torch.compile`` would make it, without custom passes. Inductor's cache of graphs
    is left out: it cannot take another graph while one is being compiled."""
    from torch._functorch import config as functorch
    from torch._inductor import compile as inductor_compile
    from torch._inductor import config as inductor

    wanted: Dict[str, Any] = {
        "fx_graph_cache": False,
        "fx_graph_remote_cache": False,
        "triton.cudagraphs": False,
        "post_grad_custom_pre_pass": None,
        "post_grad_custom_post_pass": None,
        "joint_custom_pre_pass": None,
        "joint_custom_post_pass": None,
    }
    for node in module.graph.nodes:  # what it knows belongs to another trace
        node.meta = {}
    options = {key: value for key, value in wanted.items() if key in inductor.get_config_copy()}
    caches = ("enable_autograd_cache", "bundled_autograd_cache")
    with functorch.patch({key: False for key in caches if hasattr(functorch, key)}):
        way: Way = inductor_compile(module, list(operands), options=options)
        way(*operands)
    return way


def race(
    before: Way, after: Way, sets: Sequence[Sequence[Any]], tolerance: float, graphs: bool
) -> Result:
    """Times both on all sets of operands, and compares what they make of the first. ``graphs``: as
    CUDA graphs."""
    disagreement = _disagreement(before(*sets[0]), after(*sets[0]), tolerance)
    if disagreement:
        return Result(0.0, 0.0, 0.0, disagreement)
    device = sets[0][0].device
    make = _replays if device.type == "cuda" and graphs else _calls
    once = [make(way, sets, device) for way in (before, after)]
    for run in once:
        _timed(run, device, 2)
    longest = max(_timed(run, device, 3) for run in once)
    repeats = max(1, round(_SHORTEST / longest))
    rounds = min(_MOST, max(_FEWEST, int(_SECONDS / (2 * longest * repeats))))
    seconds: Tuple[List[float], List[float]] = ([], [])
    for turn in range(rounds):
        for which in (0, 1) if turn % 2 == 0 else (1, 0):
            seconds[which].append(_timed(once[which], device, repeats))
    inductor, kiln = (statistics.median(each) / len(sets) * 1e6 for each in seconds)
    won = sum(k < i for i, k in zip(*seconds)) / rounds
    return Result(kiln, inductor, won)


def sets_of(
    inputs: Sequence[Any], *, positive: bool = False, scales: Sequence[int] = ()
) -> List[List[Any]]:
    """Sets of operands for calls in turn."""
    size = sum(x.numel() * x.element_size() for x in inputs)
    if inputs[0].device.type != "cuda":
        return [operands_of(inputs, positive=positive, scales=scales)]
    number = min(8, 1 + _ROTATED // max(1, size))
    return [operands_of(inputs, positive=positive, scales=scales, seed=1 + i) for i in range(number)]


def _calls(way: Way, sets: Sequence[Sequence[Any]], device: Any) -> Callable[[], object]:
    def run() -> None:
        for operands in sets:
            way(*operands)

    return run


def _replays(way: Way, sets: Sequence[Sequence[Any]], device: Any) -> Callable[[], object]:
    run = _calls(way, sets, device)
    side = torch.cuda.Stream(device)
    side.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(side):
        run()
    torch.cuda.current_stream(device).wait_stream(side)
    torch.cuda.synchronize(device)
    graph = torch.cuda.CUDAGraph()
    # Other threads of the program may call CUDA meanwhile.
    with torch.cuda.graph(graph, stream=side, capture_error_mode="thread_local"):
        run()
    replay: Callable[[], object] = graph.replay
    return replay


def _timed(run: Callable[[], object], device: Any, repeats: int) -> float:
    """Seconds of one run. Of calls without a graph the host's time counts too: they are timed from
    the first of them to the end of the last."""
    if device.type != "cuda":
        begin = time.perf_counter()
        for _ in range(repeats):
            run()
        return (time.perf_counter() - begin) / repeats
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize(device)
    first.record()
    for _ in range(repeats):
        run()
    last.record()
    torch.cuda.synchronize(device)
    return float(first.elapsed_time(last)) / 1e3 / repeats


def _disagreement(one: Sequence[Any], other: Sequence[Any], tolerance: float) -> str:
    for place, (x, y) in enumerate(zip(one, other)):
        if x.shape != y.shape or x.dtype != y.dtype:
            return f"output {place} is {y.dtype} {tuple(y.shape)} instead of {x.dtype} {tuple(x.shape)}"
        if any(i != j for i, j, size in zip(x.stride(), y.stride(), x.shape) if size > 1):
            return f"output {place} has strides {y.stride()} instead of {x.stride()}"
        if x.dtype == torch.bool:
            if float((x != y).float().mean()) > tolerance:
                return f"output {place} has other truth values"
            continue
        tolerated = max(tolerance, _OF_CODES) if x.element_size() == 1 else tolerance
        x, y = x.float(), y.float()
        known = x.isfinite()
        if not bool((known == y.isfinite()).all()):
            return f"output {place} has infinities or NaNs elsewhere"
        x, y = x[known], y[known]
        if not x.numel():
            continue
        size = x.square().mean().sqrt()
        error = (x - y).abs()
        if bool(error.square().mean().sqrt() > tolerated * size):
            return f"output {place} differs by {float(error.square().mean().sqrt() / size):.1e}"
        if bool((error > 8 * tolerated * (x.abs() + size)).any()):
            return f"an element of output {place} differs by {float(error.max()):.1e}"
    return ""


def mostly_finite(outputs: Sequence[Any]) -> bool:
    floats = [x for x in outputs if x.dtype != torch.bool]
    return all(float(x.float().isfinite().float().mean()) > 0.5 for x in floats)


def apart(function: Callable[[], Any], device: Any) -> Any:
    """Calls the function in a thread of its own. The thread that compiles has modes of PyTorch's
    tracing, and slower calls, in its state."""
    result: List[Any] = []
    error: List[BaseException] = []

    def run() -> None:
        try:
            with _on(device), torch.no_grad():
                result.append(function())
        except BaseException as caught:  # handed on below
            error.append(caught)

    thread = threading.Thread(target=run, name="kiln-race", daemon=True)
    thread.start()
    thread.join(_PATIENCE)
    if thread.is_alive():
        raise TimeoutError("the race did not end")
    if error:
        raise error[0]
    return result[0]


@contextlib.contextmanager
def _on(device: Optional[Any]) -> Iterator[None]:
    if device is not None and device.type == "cuda":
        with torch.cuda.device(device):
            yield
    else:
        yield
