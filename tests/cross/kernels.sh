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
RUNNEL_ISA_ROW(i8mm, cpu_i8mm | cpu_dotprod)
RUNNEL_ISA_ROW(dotprod, cpu_dotprod)
RUNNEL_ISA_ROW(neon, no_cpu_feature)
RUNNEL_ISA_ROW(scalar, no_cpu_feature)
ROWS

compile() {  # compile SOURCE FLAGS...
  source=$1
  shift
  "$cxx" -std=c++20 -Wall -Wextra -Werror -ffp-contract=off "$@" -I"$root" -isystem "$build/include" -c "$root/$source" \
    -o "$build/$(basename "$source" .cpp).o"
}
kernels() {  # kernels ISA FLAGS...: those of the row in simd/meson.build
  isa=$1
  shift
  compile "simd/isa/$isa.cpp" -O3 -fno-math-errno -Dxsimd="xsimd_$isa" "$@"
}
kernels i8mm -march=armv8.2-a+dotprod+i8mm
kernels dotprod -march=armv8.2-a+dotprod
kernels neon
kernels scalar
for source in simd/cpu_features.cpp simd/dispatch.cpp; do compile "$source" -O2; done
for source in "$root"/tests/kernels/check_*.cpp "$root"/tests/kernels/kcheck.cpp; do
  compile "tests/kernels/$(basename "$source")" -O1
done
"$cxx" -static "$build"/*.o -o "$build/kcheck"
for check in codec_check i8_codec_check; do
  "$cxx" -std=c++20 -O1 -static -I"$root" "$root/tests/kernels/$check.cpp" "$root"/quant/*.cpp -o "$build/$check"
done

# expect STATUS CPU CHECK: 77 where the CPU lacks what the row needs, and so must not be given it.
expect() {
  echo "== $2: $3"
  status=0
  qemu-aarch64 -cpu "$2" "$build"/$3 || status=$?
  [ "$status" = "$1" ] || { echo "exit status $status, expected $1"; exit 1; }
}
# Each row of vectors on the least CPU that has what it needs: i8mm only 'max' has.
for check in 'kcheck i8mm' 'kcheck scalar' 'kcheck select' codec_check i8_codec_check; do
  expect 0 max "$check"
done
expect 0 cortex-a53 'kcheck neon'
expect 77 cortex-a53 'kcheck dotprod'
expect 0 cortex-a76 'kcheck dotprod'
expect 77 cortex-a76 'kcheck i8mm'
