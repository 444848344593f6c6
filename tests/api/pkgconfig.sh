#!/bin/sh
# runnel.pc names each flag and library once.
words=$(grep -E '^(Requires|Libs|Cflags)' "$1") || exit 1
twice=$(echo "$words" | tr -s ' ' '\n' | sort | uniq -d)
[ -z "$twice" ] || { echo "more than once in $1:"; echo "$twice"; exit 1; }
