#!/bin/sh
# Dependencies go one way: cli -> public header, lib -> simd, quant; simd -> quant; quant -> nothing of ours.
cd "$1" || exit 2
bad=0
check() { # directory, pattern of what its includes of ours may be
  found=$(grep -rnE '^ *#include "' "$1" --include='*.h' --include='*.cpp' --include='*.inc' | grep -vE "#include \"($2)")
  [ -z "$found" ] || { echo "$1 may include only $2:"; echo "$found"; bad=1; }
}
check quant 'quant/'
check simd 'simd/|quant/'
check lib 'lib/|simd/|quant/|runnel/runnel\.h'
check cli '[a-z_0-9]*\.h"|runnel/runnel\.h'  # its own files stand side by side
# So do the folders of lib/ among themselves.
loops=$(grep -rE '^#include "lib/[a-z0-9_]+/' lib --include='*.h' --include='*.cpp' |
  sed -nE 's|^lib/([a-z0-9_]+)/[^:]*:#include "lib/([a-z0-9_]+)/.*|\1 \2|p' | tsort 2>&1 >/dev/null)
[ -z "$loops" ] || { echo "folders of lib/ include each other:"; echo "$loops"; bad=1; }
# The library never prints, exits, aborts or reads the environment.
calls='\b(v?[fd]?printf|f?puts|f?putc|putchar|perror|exit|_exit|_Exit|quick_exit|abort|terminate|assert'
calls="$calls|(secure_)?getenv|setenv|putenv) *\("
found=$(grep -rnE "$calls|std::(cout|cerr|clog)|\b(stdout|stderr)\b|#include <iostream>" quant simd lib \
  --include='*.h' --include='*.cpp' --include='*.inc' | grep -vE '^[^:]*:[0-9]+: *//')
[ -z "$found" ] || { echo "not allowed in the library:"; echo "$found"; bad=1; }
exit $bad
