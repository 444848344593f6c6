#!/bin/sh
# lint.sh SOURCE_ROOT: the files' outward form. C++ is as clang-format 14 makes it (others differ), no text file has tabs,
# blanks at line ends or carriage returns, and each ends in one newline. Exit status 77: no clang-format 14 here.
set -eu
cd "$1"
files=$(find quant simd lib cli tests .ci -type f ! -name '*.gguf' ! -path '*/__pycache__/*' | sort)
files="$files README.md LICENSE meson.build meson_options.txt"
bad=0

found=$(grep -nE "$(printf '\t|\r|[[:blank:]]$')" $files || true)
[ -z "$found" ] || { echo "tab, carriage return or blank at the end of a line:"; echo "$found"; bad=1; }
for file in $files; do
  [ -z "$(tail -c 1 "$file")" ] && [ -n "$(tail -n 1 "$file")" ] || { echo "$file: expected to end in one newline"; bad=1; }
done
[ $bad = 0 ] || exit 1

command -v clang-format-14 >/dev/null || { echo "no clang-format-14"; exit 77; }
clang-format-14 --dry-run -Werror $(printf '%s\n' $files | grep -E '\.(cpp|h|c)$')
