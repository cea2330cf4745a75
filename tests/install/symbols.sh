#!/bin/sh
# Usage: symbols.sh LIBRARY KILN_H. A shared libkiln exports each function of the C API and what
# KILN_API marks of the C++ one, and nothing else: no internals, no instances of other libraries'
# templates, no GNU_UNIQUE symbol ('u'), which would keep dlclose() from unloading it.
set -eu
all=$(nm -D --defined-only "$1" | cut -d' ' -f2-)
# Without the versions' own symbols, and names without the versions that are theirs.
exported=$(printf '%s\n' "$all" | grep -v '^A KILN_' | sed 's/@@.*//')
declared=$(tr '\n' ' ' <"$2" | grep -oE 'KILN_API [^;(]*\(' | grep -oE 'kiln_[a-z_]+ *\($' | tr -d ' (')
[ "$(printf '%s\n' "$declared" | wc -l)" -ge 20 ] || { echo "too few functions found in $2" >&2; exit 1; }
bad=0
for name in $declared; do
  printf '%s\n' "$exported" | grep -qx "T $name" || { echo "$name is not exported" >&2; bad=1; }
done
for name in $(printf '%s\n' "$exported" | grep -oE ' kiln_.*'); do
  printf '%s\n' "$declared" | grep -qx "$name" || { echo "$name is no function of $2" >&2; bad=1; }
done
unversioned=$(printf '%s\n' "$all" | grep -vE '^A KILN_|^. kiln_[a-z_]+@@KILN_[0-9]+\.[0-9]+$|^. _ZNK?4kiln.*@@KILN_CXX_' || true)
if [ -n "$unversioned" ]; then
  printf 'exported without a version of its interface:\n%s\n' "$unversioned" | head -n 20 >&2
  bad=1
fi
strange=$(printf '%s\n' "$exported" | c++filt | grep -vE '^[A-Z] kiln_[a-z_]+$' |
  grep -E '^u|^. kiln::[A-Za-z]+::Impl|^. [^k]|^. k[^i]|^. ki[^l]|^. kiln[^:]' || true)
if [ -n "$strange" ]; then
  printf 'exported, but no part of the API:\n%s\n' "$strange" | head -n 20 >&2
  bad=1
fi
printf '%s exported symbols\n' "$(printf '%s\n' "$exported" | wc -l)"
exit $bad
