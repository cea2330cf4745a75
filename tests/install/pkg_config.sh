#!/bin/sh
# Usage: pkg_config.sh LIBDIR CXX SOURCE_DIR WORK_DIR [SANITIZERS]
set -eu
export PKG_CONFIG_PATH="$1/pkgconfig" LD_LIBRARY_PATH="$1"
mkdir -p "$4"
# Unquoted on purpose: the flags are words.
# shellcheck disable=SC2046
"$2" -std=c++20 ${5:+-fsanitize="$5"} "$3/consumer.cpp" -o "$4/consumer" $(pkg-config --cflags --libs kiln)
KILN_DB="$4/kiln.db" "$4/consumer"
