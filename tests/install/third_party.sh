#!/bin/sh
# Usage: third_party.sh SOURCE_DIR BUILD_DIR NINJA. Every Debian package with a header that a file of kiln
# includes, or with an archive that is linked, is in cmake/third_party.txt, and the notices that static
# builds and packages carry name each that is compiled in.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
listed() { awk -v when="$1" '$2 ~ when { print $1 }' "$2/cmake/third_party.txt" | sort; }

# Tests and examples are given to nobody.
"$3" -C "$2" -t deps | awk '/^[^ ].*: #deps/ { ours = !/^(tests|examples)\// } ours && /^ +\/usr\// { print $1 }' |
  sort -u >"$work/files"
grep -oE '/usr/[^ ]+\.a\b' "$2/build.ninja" | grep -vE '/lib(gtest|gmock|pthread)' | sort -u >>"$work/files"
xargs -n 200 dpkg-query -S <"$work/files" 2>/dev/null | sed -E 's/(:[a-z0-9]+)?: .*//' | sort -u >"$work/used"
[ "$(wc -l <"$work/used")" -ge 10 ] || { echo "only these packages were found:" && cat "$work/used"; exit 1; } >&2
listed '^(always|static|declarations)$' "$1" >"$work/listed"
missing=$(comm -23 "$work/used" "$work/listed")
[ -z "$missing" ] || { echo "used, but not in cmake/third_party.txt: $missing" >&2; exit 1; }

"$1/scripts/third_party" static >"$work/notices"
for package in $(listed '^(always|static)$' "$1"); do
  grep -q "^==== .*($package " "$work/notices" || { echo "$package has no notice" >&2; exit 1; }
done
