#!/bin/sh
# Usage: targets.sh SOURCE_DIR BUILD_DIR NINJA. The target `installable` makes all that
# `cmake --install` copies; what scripts/demo builds is the command and what that loads and starts.
set -eu
commands_of() {
  "$ninja" -C "$build" -t commands "$@" | tr ' ' '\n' | sort -u
}
source=$1 build=$2 ninja=$3
commands=$(commands_of installable)
count=0
for file in $(grep -ohE "\"$build/(bin|lib)[^\"]*\"" "$build/cmake_install.cmake" | tr -d '"' | sort -u); do
  count=$((count + 1))
  printf '%s\n' "$commands" | grep -qxF "${file#"$build"/}" ||
    { echo "installable does not make $file" >&2; exit 1; }
done
[ "$count" -ge 3 ] || { echo "only $count installed files found" >&2; exit 1; }

targets=$(sed -n 's|^scripts/build release ||p' "$source/scripts/demo")
[ -n "$targets" ] || { echo "scripts/demo names no targets" >&2; exit 1; }
# Unquoted on purpose: one argument a target.
# shellcheck disable=SC2086
commands=$(commands_of $targets)
for made in bin/kiln lib/libkiln_clang.so; do
  printf '%s\n' "$commands" | grep -qxF "$made" ||
    { echo "scripts/demo builds $targets, which does not make $made" >&2; exit 1; }
done
if printf '%s\n' "$commands" | grep -E '/(tests|hooks|python|modules)/.*\.cpp$' >&2; then
  echo "scripts/demo compiles these, which it does not need" >&2
  exit 1
fi
