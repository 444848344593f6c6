#!/bin/sh
# odr.sh LIBRARY...: no two kernel files may define the same weak symbol. The linker keeps one of them for both, and that
# one may be compiled for an instruction set that the CPU at hand lacks. Types' descriptions (_ZTI, _ZTS; a sanitizer adds
# them) are the same from everyone.
shared=$(for library in "$@"; do
  nm "$library" | awk '($2 == "W" || $2 == "V" || $2 == "u") && $3 !~ /^_ZT[IS]/ { print $3 }' | sort -u
done | sort | uniq -d)
[ -z "$shared" ] && exit 0
echo "defined by more than one of the kernel libraries:"
echo "$shared" | c++filt
exit 1
