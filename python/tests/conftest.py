"""Databases of these tests' own, and kernels that are shipped for every x86-64 CPU: with them no
product waits for a compiler."""

import os
import pathlib
import shutil
import tempfile

# A program that test_gpu.py runs, and what tests with PyTorch share.
collect_ignore = ["on_gpu.py", "fx_graphs.py"]

# Before kiln is imported. Machine code is loaded from folders that nobody else may write to.
_folder = pathlib.Path(tempfile.mkdtemp(prefix="kiln-python-"))
_shipped = pathlib.Path(__file__).parents[2] / "db" / "x86-64.kiln"
shutil.copy(_shipped, _folder)
os.environ["KILN_DB"] = str(_folder / "kiln.db")
os.environ["KILN_DB_PATH"] = str(_folder / _shipped.name)
os.environ["KILN_LOG"] = "error"
# Not to wait for other programs that tune.
os.environ["KILN_LOCK_DIR"] = str(_folder)


def pytest_unconfigure() -> None:
    shutil.rmtree(_folder)
