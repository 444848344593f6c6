#!/bin/sh
# lint.sh SOURCE_ROOT: the files' outward form. C++ is as clang-format 14 makes it (others differ), no text file has tabs,
# blanks at line ends or carriage returns, each ends in one newline, and prose in .md has 120 columns
# at most. Exit status 77: no clang-format 14 here.
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
# Characters, not bytes: those of UTF-8 after a character's first are not counted.
wide=$(LC_ALL=C awk '
  FNR == 1 { fenced = indented = 0; blank = 1 }
  { fence = /^ *```/; if (fence) fenced = !fenced }
  { indented = /^    / && (blank || indented); blank = /^$/ }
  { text = $0; gsub(/[\200-\277]/, "", text) }
  length(text) <= 120 || fence || fenced || indented || /^ *\|/ || /^ *!?\[[^]]*\]\([^)]*\)$/ { next }
  { print FILENAME ":" FNR ": " length(text) }' $(printf '%s\n' $files | grep '\.md$'))
[ -z "$wide" ] || { echo "wider than 120 columns, no table, no code and no link alone:"; echo "$wide"; bad=1; }
[ $bad = 0 ] || exit 1

command -v clang-format-14 >/dev/null || { echo "no clang-format-14"; exit 77; }
clang-format-14 --dry-run -Werror $(printf '%s\n' $files | grep -E '\.(cpp|h|c)$')
