"""The Engine, and the functions that take a problem as arrays or as a line of text."""

from __future__ import annotations

import contextlib
import os
from types import TracebackType
from typing import Any, Callable, Iterator, List, Optional, Tuple, Union

from . import _kiln
from ._kiln import PackedB, RangeReport, TuneReport

Progress = Callable[[str, int, int, float], object]


def problem(a: Any, b: Any, **arguments: Any) -> str:
    """The product ``matmul(a, b, **arguments)`` as a line of text, as the command ``kiln`` and
    files of shapes have it. Nothing is computed.

    >>> import numpy as np
    >>> x, w = np.ones((16, 512), np.float32), np.ones((256, 512), np.float32)
    >>> problem(x, w.T, activation="relu")
    'fp32 N T 16 256 512 epilogue=relu'
    """
    line, _ = _kiln.problem(a, b, **arguments)
    return line


def problem_of_list(a: Any, b: Any, **arguments: Any) -> str:
    """The products ``matmul_list(a, b, **arguments)`` as a line of text, which `tune` takes. Nothing
    is computed.

    >>> import numpy as np
    >>> x = [np.ones((m, 64), np.float32) for m in (3, 40)]
    >>> problem_of_list(x, [np.ones((64, 32), np.float32)] * 2, largest=(64, 32, 64))
    'fp32 N N 64 32 64 groups=2 grouped=list'
    """
    line, _ = _kiln.problem_of_list(a, b, **arguments)
    return line


def _problem_on(a: Any, b: Any, engine: Optional[_kiln.Engine], arguments: Any) -> Tuple[str, str]:
    """The line, and the device that a call without an engine would use."""
    if not isinstance(a, str):
        return _kiln.problem(a, b, **arguments)
    if b is not None or arguments:
        raise TypeError("a is a problem's text: it takes no b and no other part of a product")
    return a, engine.device if engine is not None else "cpu"


def tune(
    a: Any,
    b: Any = None,
    *,
    budget: float = 10.0,
    candidates: int = 0,
    seed: int = 1,
    threads: int = 0,
    force: bool = False,
    race: bool = False,
    policy: str = "cool",
    progress: Optional[Progress] = None,
    engine: Optional[_kiln.Engine] = None,
    **arguments: Any,
) -> Union[TuneReport, RangeReport]:
    """Searches for the fastest kernel of a product, verifies and stores it.

    The product is that of ``matmul(a, b, **arguments)``, or a line: ``"fp32 N T 16 4096 4096"``,
    ``"fp32 N T 1..512 4096 4096"`` for a range of sizes. It belongs to ``threads``: tune with the
    number that you call with. ``budget`` is seconds of search in all; a later call with a larger
    one continues. ``candidates`` is the most kernels that are tried in all (0: any number).
    ``race`` times the kernel of a tuned product beside the library again, without a
    search (after an update of cuBLAS, say); not for ranges. ``policy="sustained"`` races the
    finalists back to back, at the clock that a GPU's power limit leaves, and ``"auto"`` does so
    where power is the limit. ``progress`` is called with the stage,
    candidates done and in all, and seconds.
    Ctrl-C stops the search, keeps what was measured, and raises KeyboardInterrupt.

    >>> report = tune("fp32 N N 24 24 24", candidates=8, threads=1)
    >>> report.problem, report.threads, report.measured > 0
    ('fp32 N N 24 24 24', 1, True)
    >>> tune("fp32 N N 24 24 24", candidates=8, threads=1).already_tuned
    True
    """
    line, device = _problem_on(a, b, engine, arguments)
    return _kiln.tune(
        line,
        budget=budget,
        candidates=candidates,
        seed=seed,
        threads=threads,
        force=force,
        race=race,
        policy=policy,
        progress=progress,
        engine=engine,
        device=device,
    )


def explain(
    a: Any,
    b: Any = None,
    *,
    threads: int = 0,
    engine: Optional[_kiln.Engine] = None,
    **arguments: Any,
) -> str:
    """Which kernel a product runs, where it came from, how fast it was, what was slower, and its
    source. The product is given as for `tune`.

    >>> "config:" in explain("fp32 N N 64 64 64", threads=1)
    True
    """
    line, device = _problem_on(a, b, engine, arguments)
    return _kiln.explain(line, threads=threads, engine=engine, device=device)


def source(
    a: Any,
    b: Any = None,
    *,
    threads: int = 0,
    engine: Optional[_kiln.Engine] = None,
    **arguments: Any,
) -> str:
    """The source of the kernel that a product runs: one file, with device, problem, config and
    compile command at its head. The product is given as for `tune`. Raises `Unsupported` where a
    plain loop or the vendor's library would run.

    >>> report = tune("fp32 N N 20 20 20", candidates=8, threads=1)
    >>> report.config in source("fp32 N N 20 20 20", threads=1)
    True
    """
    line, device = _problem_on(a, b, engine, arguments)
    return _kiln.source(line, threads=threads, engine=engine, device=device)


@contextlib.contextmanager
def record(file: Union[str, "os.PathLike[str]"]) -> Iterator[None]:
    """Adds the calls of `matmul` that name no engine to ``file``, by problem, for
    ``kiln tune --recorded FILE``; of one process at a time. `Engine` takes a file of its own.

    >>> import numpy as np, os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "calls.kcalls")
    >>> with record(path):
    ...     x = _kiln.matmul(np.eye(4, dtype="f"), np.eye(4, dtype="f"))
    >>> os.path.getsize(path) > 0
    True
    """
    before = _kiln.record_default_engines(os.fspath(file))
    try:
        yield
    finally:
        _kiln.record_default_engines(before)


class Engine(_kiln.Engine):
    """One device, its databases, and what a call does on a miss.

    ``database`` is the user's own file (``None``: ``$KILN_DB``, else the one of the user's cache;
    ``":memory:"``: a private one), ``shipped`` files are read only. ``device`` is ``"cpu"``,
    ``"cuda:N"`` or ``"hip:N"``. ``policy`` is ``"use_best_known"``, ``"tune_now"``,
    ``"tune_in_background"`` or ``"error"``; ``determinism`` is ``"run_to_run"``, ``"any"`` or
    ``"batch_invariant"``. ``threads`` are those of calls that name none (0: all). ``on_untuned`` is
    called once for each untuned problem, with a sentence about it. ``record`` names a file to which
    all calls are added. `docs/guide/` explains each. Any thread may use an engine.

    >>> import numpy as np
    >>> a = np.eye(8, dtype=np.float32)
    >>> with Engine(":memory:", threads=1) as engine:
    ...     bool((engine.matmul(a, a) == a).all())
    True
    """

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    def matmul(self, a: Any, b: Any, **arguments: Any) -> Any:
        """`kiln.matmul` with this engine."""
        return _kiln.matmul(a, b, engine=self, **arguments)

    def matmul_list(self, a: Any, b: Any, **arguments: Any) -> List[Any]:
        """`kiln.matmul_list` with this engine."""
        return _kiln.matmul_list(a, b, engine=self, **arguments)

    def tune(self, a: Any, b: Any = None, **arguments: Any) -> Union[TuneReport, RangeReport]:
        """`kiln.tune` with this engine."""
        return tune(a, b, engine=self, **arguments)

    def explain(self, a: Any, b: Any = None, **arguments: Any) -> str:
        """`kiln.explain` with this engine."""
        return explain(a, b, engine=self, **arguments)

    def source(self, a: Any, b: Any = None, **arguments: Any) -> str:
        """`kiln.source` with this engine."""
        return source(a, b, engine=self, **arguments)

    def pack_b(self, b: Any, *, threads: int = 0) -> PackedB:
        """`kiln.PackedB` with this engine."""
        return PackedB(b, threads=threads, engine=self)
