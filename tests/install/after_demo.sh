#!/bin/sh
# Usage: after_demo.sh SOURCE_DIR BUILD_DIR NINJA. What scripts/demo builds is all that
# `cmake --install` copies, so that one may follow the other.
set -eu
targets=$(sed -n 's|^scripts/build release ||p' "$1/scripts/demo")
[ -n "$targets" ] || { echo "scripts/demo names no targets" >&2; exit 1; }
# Unquoted on purpose: one argument a target.
# shellcheck disable=SC2086
commands=$("$3" -C "$2" -t commands $targets | tr ' ' '\n' | sort -u)
count=0
for file in $(grep -ohE "\"$2/(bin|lib)[^\"]*\"" "$2/cmake_install.cmake" | tr -d '"' | sort -u); do
  count=$((count + 1))
  printf '%s\n' "$commands" | grep -qxF "${file#"$2"/}" ||
    { echo "scripts/demo builds $targets, which does not make $file" >&2; exit 1; }
done
[ "$count" -ge 3 ] || { echo "only $count installed files found" >&2; exit 1; }
