#!/bin/sh
# odr.sh LIBRARY...: a kernel file may define no weak symbol. Of several the linker keeps one for the whole library, and
# that one may be compiled for an instruction set that the CPU at hand lacks. The plain row's is not; and types'
# descriptions (_ZTI, _ZTS; a sanitizer adds them) are the same from everyone.
status=0
for library in "$@"; do
  case $library in *kernels_scalar*) continue ;; esac
  symbols=$(nm "$library") || exit 1
  weak=$(echo "$symbols" | awk '($2 == "W" || $2 == "V" || $2 == "u") && $3 !~ /^_ZT[IS]/ { print $3 }' | c++filt)
  [ -z "$weak" ] && continue
  printf '%s defines weak symbols:\n%s\n' "$library" "$weak"
  status=1
done
exit $status
