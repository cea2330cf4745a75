#!/bin/sh
# Usage: python.sh PYTHON FOLDER. The installed package multiplies and tunes: it finds the compiler and
# the worker, and shows nothing but its own symbol.
set -eu
module=$(ls "$2"/kiln/_kiln.*.so)
shown=$(nm -D --defined-only "$module" | grep -vE ' T PyInit__kiln$' || true)
if [ -n "$shown" ]; then
  printf 'exported, but not for Python:\n%s\n' "$shown" | head -n 20 >&2
  exit 1
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
PYTHONPATH=$2 PYTHONDONTWRITEBYTECODE=1 KILN_DB=$work/kiln.db KILN_LOCK_DIR=$work "$1" - <<'END'
import kiln, numpy as np

a = np.eye(8, dtype=np.float32)
report = kiln.tune(a, a, budget=0.3, threads=1)
assert report.stored and report.measured > 0, report
assert (kiln.matmul(a, a, threads=1) == a).all()
END
