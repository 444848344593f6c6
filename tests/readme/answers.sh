#!/bin/sh
# answers.sh PROGRAM MODEL EXPECTED: what the program prints about the model, and that it fails without one.
set -eu
answer=$("$1" "$2")
[ "$answer" = "$3" ] || { echo "expected: $3"; echo "got:      $answer"; exit 1; }
if "$1" /nonexistent.gguf; then
  echo "no failure for a file that does not exist"
  exit 1
fi
