"""The stored races between kiln and Inductor: a file beside kiln's database.

>>> races = Races(":memory:")
>>> races.put("key", Result(kiln_us=9.0, inductor_us=10.0, rounds_won=1.0), "fp32 N N 8 8 8")
>>> races.get("key").is_won(margin=0.01), races.get("key").is_won(margin=0.2), races.get("other")
(True, False, None)
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import sqlite3
import threading
import uuid
from typing import Optional, Union

Path = Union[str, "os.PathLike[str]"]

_MEMORY = ":memory:"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS file (id TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS races (
  key TEXT PRIMARY KEY, problem TEXT NOT NULL, kiln_us REAL NOT NULL, inductor_us REAL NOT NULL,
  rounds_won REAL NOT NULL, disagreement TEXT NOT NULL);
"""


@dataclasses.dataclass(frozen=True)
class Result:
    """Medians of a race. ``rounds_won``: the share of its rounds in which kiln was faster.
    ``disagreement``: which output differs by more than rounding; empty where none does."""

    kiln_us: float
    inductor_us: float
    rounds_won: float
    disagreement: str = ""

    def is_won(self, margin: float) -> bool:
        faster = self.kiln_us <= self.inductor_us * (1 - margin) and self.rounds_won >= 0.75
        return faster and not self.disagreement


def default_file() -> Path:
    """``torch.races`` beside kiln's database (docs/guide/commands.md)."""
    database = os.environ.get("KILN_DB", "")
    if database == _MEMORY:
        return _MEMORY
    if database:
        return pathlib.Path(database).parent / "torch.races"
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not cache.is_absolute():
        try:
            cache = pathlib.Path.home() / ".cache"
        except RuntimeError:  # no home folder
            return _MEMORY
    return cache / "kiln" / "torch.races"


class Races:
    """Any thread may use it: PyTorch compiles backward graphs in others."""

    def __init__(self, file: Optional[Path] = None) -> None:
        self.file = os.fspath(default_file() if file is None else file)
        if self.file != _MEMORY:
            pathlib.Path(self.file).parent.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        try:
            self._connection = sqlite3.connect(self.file, timeout=60, check_same_thread=False)
            #: Of this file: another one, or a new one with the same name, has other races.
            self.id: str = self._prepared()
        except sqlite3.DatabaseError as error:
            raise ValueError(f"races = {self.file!r}: {error}") from error

    def _prepared(self) -> str:
        with self._lock, self._connection:
            self._connection.executescript(_SCHEMA)
            self._connection.execute(
                "INSERT INTO file SELECT ? WHERE NOT EXISTS (SELECT 1 FROM file)", (uuid.uuid4().hex,)
            )
            return str(self._connection.execute("SELECT id FROM file").fetchone()[0])

    def get(self, key: str) -> Optional[Result]:
        with self._lock:
            row = self._connection.execute(
                "SELECT kiln_us, inductor_us, rounds_won, disagreement FROM races WHERE key = ?", (key,)
            ).fetchone()
        return None if row is None else Result(*row)

    def put(self, key: str, result: Result, problem: str) -> None:
        with self._lock, self._connection:
            self._connection.execute(
                "INSERT OR REPLACE INTO races VALUES (?, ?, ?, ?, ?, ?)",
                (key, problem, *dataclasses.astuple(result)),
            )
