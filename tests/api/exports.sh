#!/bin/sh
# Every dynamic symbol the library defines starts with runnel_.
listing=$(nm -D --defined-only "$1") || exit 1
symbols=$(echo "$listing" | awk 'NF == 3 {print $3}')
[ -n "$symbols" ] || { echo "no dynamic symbols in $1"; exit 1; }
foreign=$(echo "$symbols" | grep -v '^runnel_')
[ -z "$foreign" ] || { echo "symbols that should be hidden:"; echo "$foreign"; exit 1; }
