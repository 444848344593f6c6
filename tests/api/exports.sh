#!/bin/sh
# Every dynamic symbol the library defines starts with runnel_.
symbols=$(nm -D --defined-only "$1") || exit 1
foreign=$(echo "$symbols" | awk '{print $3}' | grep -v '^runnel_')
[ -z "$foreign" ] || { echo "symbols that should be hidden:"; echo "$foreign"; exit 1; }
