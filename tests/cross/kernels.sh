#!/bin/sh
# kernels.sh SOURCE_ROOT: builds the ARM kernels and their checks with a cross compiler and runs them in an emulator.
# Needs no ARM library but the C++ one: the rest of the project stays out. Exit status 77: no compiler or emulator here.
set -eu
root=$1
cxx=aarch64-linux-gnu-g++
xsimd=/usr/include/xsimd
for program in "$cxx" qemu-aarch64; do
  command -v "$program" >/dev/null || { echo "no $program"; exit 77; }
done
[ -d "$xsimd" ] || { echo "no $xsimd"; exit 77; }

build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
mkdir -p "$build/include/simd"
ln -s "$xsimd" "$build/include/xsimd"
cat >"$build/include/simd/isa_table.inc" <<'ROWS'
RUNNEL_ISA_ROW(neon, no_cpu_feature)
RUNNEL_ISA_ROW(scalar, no_cpu_feature)
ROWS

compile() {  # compile SOURCE FLAGS...
  source=$1
  shift
  "$cxx" -std=c++20 -Wall -Wextra -Werror -ffp-contract=off "$@" -I"$root" -isystem "$build/include" -c "$root/$source" \
    -o "$build/$(basename "$source" .cpp).o"
}
for isa in neon scalar; do
  compile "simd/isa/$isa.cpp" -O3 -fno-math-errno -Dxsimd="xsimd_$isa"
done
for source in simd/cpu_features.cpp simd/dispatch.cpp; do compile "$source" -O2; done
for source in "$root"/tests/kernels/check_*.cpp "$root"/tests/kernels/kcheck.cpp; do
  compile "tests/kernels/$(basename "$source")" -O1
done
"$cxx" -static "$build"/*.o -o "$build/kcheck"
"$cxx" -std=c++20 -O1 -static -I"$root" "$root/tests/kernels/codec_check.cpp" "$root"/quant/*.cpp -o "$build/codec_check"

for check in 'kcheck neon' 'kcheck scalar' 'kcheck select' codec_check; do
  echo "== $check"
  qemu-aarch64 -cpu max "$build"/$check
done
