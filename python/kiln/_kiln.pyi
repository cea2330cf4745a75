"""What is written in C++."""

import os
from typing import Any, Callable, List, Optional, Sequence, Tuple, Union

version: str

def matmul(
    a: Any,
    b: Any,
    *,
    out: Any = None,
    bias: Any = None,
    activation: Optional[str] = None,
    residual: Any = None,
    alpha: float = 1.0,
    beta: float = 0.0,
    c: Any = None,
    scale_a: Any = None,
    scale_b: Any = None,
    scale_d: Any = None,
    amax_d: Any = None,
    zero_a: Any = None,
    column_sums_b: Any = None,
    numerics: str = "ieee",
    gate: Optional[str] = None,
    groups: Any = None,
    expected_rows: Optional[int] = None,
    gather: Any = None,
    scatter: Any = None,
    add_rows: bool = False,
    row_weights: Any = None,
    out_dtype: Any = None,
    threads: int = 0,
    engine: Optional[Engine] = None,
    stream: Optional[int] = None,
    epilogue: Union[str, Callable[..., Any], None] = None,
    **operands: Any,
) -> Any: ...
def matmul_list(
    a: Sequence[Any],
    b: Sequence[Any],
    *,
    out: Optional[Sequence[Any]] = None,
    bias: Optional[Sequence[Any]] = None,
    residual: Optional[Sequence[Any]] = None,
    c: Optional[Sequence[Any]] = None,
    scale_a: Optional[Sequence[Any]] = None,
    scale_b: Optional[Sequence[Any]] = None,
    scale_d: Optional[Sequence[Any]] = None,
    activation: Optional[str] = None,
    alpha: float = 1.0,
    beta: float = 0.0,
    numerics: str = "ieee",
    gate: Optional[str] = None,
    largest: Optional[Tuple[int, int, int]] = None,
    count: int = 0,
    out_dtype: Any = None,
    threads: int = 0,
    engine: Optional[Engine] = None,
    stream: Optional[int] = None,
) -> List[Any]: ...
def stored_by(epilogue: str) -> List[Tuple[str, Tuple[str, ...], Optional[str]]]: ...
def expression_functions() -> List[str]: ...
def of_gate(epilogue: str) -> bool: ...
def problem_of_list(a: Sequence[Any], b: Sequence[Any], **arguments: Any) -> Tuple[str, str]: ...
def problem(a: Any, b: Any, **arguments: Any) -> Tuple[str, str]: ...
def tune(
    problem: str,
    *,
    budget: float,
    candidates: int,
    seed: int,
    threads: int,
    force: bool,
    race: bool,
    policy: str,
    progress: Optional[Callable[[str, int, int, float], object]],
    engine: Optional[Engine],
    device: str,
) -> Union[TuneReport, RangeReport]: ...
def explain(problem: str, *, threads: int, engine: Optional[Engine], device: str) -> str: ...
def source(problem: str, *, threads: int, engine: Optional[Engine], device: str) -> str: ...
def close_default_engines() -> None: ...
def end_callbacks() -> None: ...
def record_default_engines(file: str) -> str: ...
def set_log(callback: Optional[Callable[[str, str], object]]) -> None: ...
def set_log_level(level: str) -> None: ...

class Engine:
    def __init__(
        self,
        database: Union[None, str, os.PathLike[str]] = None,
        *,
        device: str = "cpu",
        shipped: Sequence[Union[str, os.PathLike[str]]] = (),
        policy: str = "use_best_known",
        determinism: str = "run_to_run",
        threads: int = 0,
        allow_vendor: bool = False,
        on_untuned: Optional[Callable[[str], object]] = None,
        record: Union[None, str, os.PathLike[str]] = None,
    ) -> None: ...
    def close(self) -> None: ...
    @property
    def closed(self) -> bool: ...
    @property
    def device(self) -> str: ...

class PackedB:
    def __init__(self, b: Any, *, threads: int = 0, engine: Optional[Engine] = None) -> None: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def dtype(self) -> str: ...
    @property
    def shape(self) -> Tuple[int, ...]: ...

class TuneReport:
    problem: str
    threads: int
    config: str
    policy: str
    median_ns: float
    low_ns: float
    high_ns: float
    joules: float
    sm_mhz: int
    enumerated: int
    compiled: int
    measured: int
    failed: int
    seconds: float
    already_tuned: bool
    peak_flops: float
    conditions: str
    stored: bool
    disturbed: str
    warnings: List[str]

class RangePart:
    last: int
    config: str
    tuned_at: int
    expected_ns: float

class RangeReport:
    problem: str
    threads: int
    parts: List[RangePart]
    kernels: int
    searched: int
    measured: int
    seconds: float
    already_tuned: bool
    stored: bool
    warnings: List[str]
