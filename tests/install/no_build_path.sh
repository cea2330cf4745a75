#!/bin/sh
# Usage: no_build_path.sh PREFIX PATH. Nothing installed holds PATH, where it was built, or looks for
# files there: another user could put code of theirs into it. Debug information may name it.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for file in $(find "$1" -type f); do
  if head -c 8 "$file" | grep -qaE '^(.ELF|!<arch>)'; then
    strings -d "$file"
  else
    cat "$file"
  fi | grep -aF "$2" | head -n 3 | sed "s|^|$file: |" >>"$work/found"
done

# A compiler splits short texts into immediate operands, which strings(1) does not see: so the command,
# copied to where nothing lies beside it, also has to say where it looks.
cp "$1/bin/kiln" "$work/kiln"
KILN_DB="$work/kiln.db" KILN_LOG=debug "$work/kiln" devices >"$work/devices" 2>&1
grep -qE 'no host compiler could be opened; tried|debug: compiler: ' "$work/devices" ||
  { echo "the command does not say where it looked for the compiler" >&2; exit 1; }
grep -F "$2" "$work/devices" | sed 's|^|kiln devices: |' >>"$work/found" || true
[ ! -s "$work/found" ] || { cat "$work/found" >&2; exit 1; }
