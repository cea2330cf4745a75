"""The pass of `kiln.torch.compile_pass`: looks for regions in Inductor's graphs, races them, and
replaces those whose race kiln won."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import os
import pathlib
from types import TracebackType
from typing import Any, Dict, List, Optional, Tuple, Type

import torch

from . import _kiln, _race
from ._engine import problem, tune
from ._fusion import Region, reasons_behind, regions_behind
from ._fusion_graph import factors_of, is_product, is_scaled, sizes_of, value_of
from ._fusion_rewrite import fuse
from ._fusion_terms import Unsayable
from ._race_graphs import Contest, contest_of
from ._races import Path, Races, Result

# What Inductor asks for the identity of, so that it can keep compiled graphs.
try:
    from torch._inductor.custom_graph_pass import CustomGraphPass
except ImportError:  # before PyTorch 2.6
    CustomGraphPass = object

#: Of outputs, by the product's type: relative to their size.
_TOLERANCES = {
    torch.float16: 4e-3,
    torch.bfloat16: 2e-2,
    torch.float32: 1e-3,  # PyTorch may round the factors to TF32
    torch.float64: 1e-9,
}
#: Of products of codes of eight bits, whose sums have few bits in tensor cores.
_TOLERANCE_OF_SCALED = 2e-2


@dataclasses.dataclass(frozen=True)
class Fusion:
    """A region that the pass found, or a product without one, and what became of it."""

    #: The product's node; m, n and k, with the batch before them where there is one.
    product: str
    shape: Tuple[int, ...]
    #: What kiln would compute with it. Empty: no more than the product.
    epilogue: str
    #: Medians of the race in microseconds, whole calls. 0: there was none.
    kiln_us: float
    inductor_us: float
    #: Whether kiln computes it in the compiled graph, else why not.
    chosen: bool
    reason: str

    def __str__(self) -> str:
        sizes = "x".join(str(size) for size in self.shape)
        race = f" kiln {self.kiln_us:.1f} us, Inductor {self.inductor_us:.1f} us:" if self.kiln_us else ""
        outcome = "fused" if self.chosen else f"left alone, {self.reason}"
        return f"{self.product} {sizes} {self.epilogue or 'product'}:{race} {outcome}"


class CompilePass(CustomGraphPass):
    """Made by `kiln.torch.compile_pass`, which says what the arguments are.

    It runs before Inductor's own passes of the same graphs. Some of them hide products: the sum of two
    of them, as a value with two uses has it for a gradient, becomes one operator."""

    def __init__(
        self,
        *,
        bare: bool,
        margin: float,
        tune_seconds: float,
        races: Optional[Path],
        cudagraphs: Optional[bool],
    ) -> None:
        if not 0 <= margin < 1:
            raise ValueError(f"margin = {margin}: must be from 0 to 1")
        if tune_seconds < 0:
            raise ValueError(f"tune_seconds = {tune_seconds}: must not be negative")
        self.bare, self.margin, self.tune_seconds = bare, margin, tune_seconds
        self.cudagraphs = cudagraphs
        #: What was found in the graphs that were compiled, in their order: for a product its largest
        #: region, then smaller ones. Graphs that Inductor takes from its cache are not looked at again.
        self.report: List[Fusion] = []
        self._races = Races(races)
        self._before: List[Any] = []
        self._last: Tuple[str, Any] = "", None

    def __enter__(self) -> CompilePass:
        from torch._inductor import config

        self._before.append(config.post_grad_custom_pre_pass)
        config.post_grad_custom_pre_pass = self
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        from torch._inductor import config

        config.post_grad_custom_pre_pass = self._before.pop()

    def _earlier(self) -> Any:
        """The pass that was there before this one."""
        return next((x for x in reversed(self._before) if x is not None and x is not self), None)

    def __deepcopy__(self, memo: Dict[int, Any]) -> CompilePass:
        """Inductor copies its options, of which this is one, to compare them."""
        return self

    def uuid(self) -> Optional[Any]:
        """What compiled graphs depend on beside themselves. Races are not told apart: one that is
        stored stays."""
        earlier = self._earlier()
        of_earlier = earlier.uuid() if hasattr(earlier, "uuid") else None
        if earlier is not None and of_earlier is None:
            return None
        database = os.environ.get("KILN_DB", "")
        options = (self.bare, self.margin, self.cudagraphs, database, self._races.id, of_earlier)
        return hashlib.sha256(f"{_identity_of_code()} {options!r}".encode()).digest()

    def __call__(self, graph: Any) -> None:
        earlier = self._earlier()
        if earlier is not None:
            earlier(graph)
        for product in [x for x in graph.nodes if is_product(x)]:
            self._consider(graph, product)
        graph.lint()

    def _consider(self, graph: Any, product: Any) -> None:
        nodes = list(graph.nodes)
        at = nodes.index(product)
        try:
            regions = regions_behind(nodes, at)
        except Unsayable as reason:
            self._add(product, reason=str(reason))
            return
        wanted = [region for region in regions if self.bare or not region.is_bare]
        if not wanted:
            why = "; ".join(reasons_behind(nodes, at)) or "nothing behind it"
            self._add(product, reason=why)
            return
        best: Optional[Tuple[Region, float, int]] = None
        for region in wanted:
            try:
                result = self._raced(contest_of(graph, region), region)
            except Exception as error:
                # A model compiles without kiln too.
                self._add(product, region.epilogue, reason=f"{type(error).__name__}: {error}")
                continue
            why = result.disagreement or "the race was not won"
            saved = result.inductor_us - result.kiln_us
            if result.is_won(self.margin):
                why = "another region of the product saves more"
                if best is None or saved > best[1]:
                    best = region, saved, len(self.report)
            self._add(product, region.epilogue, result, why)
        if best is not None:
            region, _, place = best
            self.report[place] = dataclasses.replace(self.report[place], chosen=True, reason="")
            fuse(graph, region)

    def _add(
        self, product: Any, epilogue: str = "", result: Optional[Result] = None, reason: str = ""
    ) -> None:
        times = (result.kiln_us, result.inductor_us) if result is not None else (0.0, 0.0)
        shape = _problem_sizes(product)
        self.report.append(Fusion(product.name, shape, epilogue, *times, False, reason))

    def _raced(self, contest: Contest, region: Region) -> Result:
        device = contest.inputs[0].device
        graphs = device.type == "cuda" and self._uses_graphs()

        def run() -> Result:
            a, b, named = _arguments(region)
            line = problem(a, b, epilogue=region.epilogue, **named)
            key = _key(contest, line, graphs)
            stored = self._races.get(key)
            if stored is not None:
                return stored
            if self.tune_seconds > 0:
                tune(a, b, budget=self.tune_seconds, epilogue=region.epilogue, **named)
            operands = _race.operands_of(contest.inputs, scales=contest.scales)
            before = self._compiled(contest, operands)
            after = _race.compiled_by_inductor(contest.after, operands)
            positive = not _race.mostly_finite(before(*operands))
            del operands
            sets = _race.sets_of(contest.inputs, positive=positive, scales=contest.scales)
            tolerance = _TOLERANCES[value_of(region.product).dtype]
            if is_scaled(region.product):
                tolerance = max(tolerance, _TOLERANCE_OF_SCALED)
            result = _race.race(before, after, sets, tolerance, graphs)
            self._races.put(key, result, line)
            return result

        result: Result = _race.apart(run, device)
        return result

    def _compiled(self, contest: Contest, operands: List[Any]) -> Any:
        """Inductor's version, which is often that of the region before too."""
        identity, way = self._last
        if identity != contest.identity:
            way = _race.compiled_by_inductor(contest.before, operands)
            self._last = contest.identity, way
        return way

    def _uses_graphs(self) -> bool:
        if self.cudagraphs is not None:
            return self.cudagraphs
        from torch._inductor import config

        return bool(config.triton.cudagraphs)


def _problem_sizes(product: Any) -> Tuple[int, ...]:
    """Batch, m, n and k. Symbols are left out."""
    d, b = sizes_of(product), sizes_of(factors_of(product)[1])
    return (*d, b[-2]) if d is not None and b is not None else ()


def _arguments(region: Region) -> Tuple[Any, Any, Dict[str, Any]]:
    """Tensors of any content, as the call will have them."""

    def like(value: Any) -> Any:
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)

    named = {x.name: like(value_of(x.node).view(x.shape)) for x in region.operands}
    if region.out_dtype is not None:
        named["out_dtype"] = region.out_dtype
    if region.scale_a is not None:
        named["scale_a"] = like(value_of(region.scale_a))
    if region.scale_b is not None:
        named["scale_b"] = like(value_of(region.scale_b).t())
    if region.numerics != "ieee":
        named["numerics"] = region.numerics
    return like(value_of(region.a)), like(value_of(region.b)), named


def _key(contest: Contest, line: str, graphs: bool) -> str:
    device = contest.inputs[0].device
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else str(device)
    parts = (name, _kiln.version, torch.__version__, line, contest.identity, graphs, _inductor_options())
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _inductor_options() -> Tuple[Any, ...]:
    """Those on which the speed of its products depends most."""
    try:
        from torch._inductor import config
    except ImportError:
        return ()
    names = ("max_autotune", "max_autotune_gemm", "max_autotune_gemm_backends", "epilogue_fusion")
    return tuple(getattr(config, name, None) for name in names)


@functools.lru_cache(maxsize=None)
def _identity_of_code() -> str:
    folder = pathlib.Path(__file__).parent
    files = sorted([*folder.glob("_fusion*.py"), *folder.glob("_race*.py"), pathlib.Path(__file__)])
    code = b"".join(file.read_bytes() for file in files)
    return f"{hashlib.sha256(code).hexdigest()} {_kiln.version} {torch.__version__}"
