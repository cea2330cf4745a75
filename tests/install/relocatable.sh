#!/bin/sh
# Usage: relocatable.sh FOLDER. The installed folder needs nothing but libc, and runs from elsewhere.
set -eu
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
KILN_DB="$moved/kiln.db" "$moved/bin/kiln" devices
