"""Python ends while daemon threads are inside of kiln: the process ends as if they were not there."""

import os
import pathlib
import subprocess
import sys

import pytest

SOURCES = pathlib.Path(__file__).parents[1] / "src"

# Ends when each thread has come through `work` once: they are inside of it then, or about to be.
PROGRAM = """
import sys, threading
import numpy as np
import kiln
sys.path.insert(0, {tests!r})
from tensors import Tensor

a = np.ones((128, 128), np.float32)
{setup}

def work():
    {work}

def forever(once):
    while True:
        work()
        once.set()

work()
for _ in range(3):
    once = threading.Event()
    threading.Thread(target=forever, args=(once,), daemon=True).start()
    once.wait()
print("end", flush=True)
"""


def ends(work, setup=""):
    program = PROGRAM.format(tests=str(pathlib.Path(__file__).parent), work=work, setup=setup)
    for _ in range(3):
        run = subprocess.run(
            [sys.executable, "-c", program],
            # clock: far beyond what any machine needs
            env=dict(os.environ), capture_output=True, text=True, timeout=1800,
        )
        assert (run.returncode, run.stdout) == (0, "end\n"), run.stderr


@pytest.mark.parametrize(
    "work",
    [
        "kiln.matmul(a, a)",
        "kiln.matmul_list([a, a], [a, a])",
        "kiln.PackedB(a)",
        "kiln.explain(a, a)",
    ],
)
def test_while_kiln_computes(work):
    ends(work)


def test_while_errors_are_raised():
    ends("try: kiln.matmul(a, a[:3])\n    except kiln.BadInput: pass")


def test_while_arrays_run_code_of_python():
    ends("kiln.matmul(Tensor(a, 'float32'), a, out=np.empty((128, 128), np.float32))")


def test_while_engines_open_and_close():
    ends("with kiln.Engine(':memory:', threads=1) as engine: engine.matmul(a, a)")


def test_while_engines_call_back():
    """Sizes that nobody tuned, each told to Python; and an engine that only Python's end closes."""
    ends(
        "n = next(sizes); engine.matmul(a[:, :n], a[:n])",
        "import itertools\n"
        "sizes = itertools.cycle(range(1, 129))\n"
        "engine = kiln.Engine(':memory:', threads=1, on_untuned=lambda line: sum(range(1000)))",
    )


def test_while_tuning_reports_progress():
    ends(
        "kiln.tune('fp32 N N 24 24 24', candidates=2, threads=1, force=True, engine=engine,\n"
        "              progress=lambda *_: sum(range(1000)))",
        "engine = kiln.Engine(':memory:', threads=1)",
    )


def test_no_lock_is_taken_in_destructors():
    """pybind11's guards take it there: lock.h says why kiln has its own."""
    for file in sorted(SOURCES.iterdir()):
        lines = (line.split("//")[0] for line in file.read_text().splitlines())
        assert not any("gil_scoped" in line for line in lines), file.name
