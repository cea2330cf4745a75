#!/bin/sh
# Usage: relocatable.sh FOLDER SOURCE_DIR. The installed folder needs nothing but libc, runs from
# elsewhere, names nothing of where it was built, and its library shows and keeps only what it must.
set -eu
here=$(dirname "$0")
moved=$(mktemp -d)
trap 'rm -rf "$moved"' EXIT
cp -r "$1"/. "$moved"

allowed='linux-vdso|ld-linux|libc\.so|libm\.so|libpthread\.so|libdl\.so'
for file in "$moved"/bin/* "$moved"/libexec/kiln/* "$moved"/lib/libkiln.so; do
  [ -e "$file" ] || continue
  if ldd "$file" | grep -vE "$allowed|statically linked|not a dynamic executable"; then
    echo "$file needs the libraries above" >&2
    exit 1
  fi
done

size=$(du -sm "$moved" | cut -f1)
if [ "$size" -gt 40 ]; then
  echo "the folder takes $size MB, more than 40" >&2
  exit 1
fi
"$here/no_build_path.sh" "$moved" "$2"
"$here/symbols.sh" "$moved/lib/libkiln.so" "$moved/include/kiln/kiln.h"
grep -q '^==== SQLite (' "$moved"/share/doc/kiln/THIRD-PARTY || { echo "no notices of third parties" >&2; exit 1; }
KILN_DB="$moved/kiln.db" "$moved/bin/kiln" devices
for package in "$moved"/lib/python*/*-packages; do
  [ -d "$package/kiln" ] || continue
  PYTHONPATH=$package PYTHONDONTWRITEBYTECODE=1 KILN_DB="$moved/kiln.db" KILN_LOG=error \
    /usr/bin/python3 -c 'import kiln, numpy as np; a = np.eye(8); assert (kiln.matmul(a, a) == a).all()'
done
mkdir "$moved/unload"
cc -std=gnu99 -Wall -Wextra -Werror -I"$moved/include" "$here/unload.c" -o "$moved/unload/unload" -pthread -ldl
"$moved/unload/unload" "$moved/lib/libkiln.so" "$moved/unload/kiln.db"
