"""Arrays of a GPU, without one."""

import os
import pathlib
import subprocess
import sys

import pytest


@pytest.mark.skipif("KILN_FAKE_HIP" not in os.environ, reason="no fake HIP runtime")
def test_products_on_a_gpu():
    folder = pathlib.Path(os.environ["KILN_FAKE_HIP"]).parent
    environment = {
        **os.environ,
        "KILN_CLANG": os.environ["KILN_FAKE_CLANG"],
        "LD_LIBRARY_PATH": str(folder),
    }
    program = pathlib.Path(__file__).with_name("on_gpu.py")
    run = subprocess.run(
        # clock: far beyond what any machine needs
        [sys.executable, program], env=environment, capture_output=True, text=True, timeout=1800
    )
    assert run.stdout == "computed\n", run.stderr
