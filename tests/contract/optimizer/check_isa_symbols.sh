#!/usr/bin/env bash
# usage: check_isa_symbols.sh NM OBJECT...
# An object compiled for a newer instruction set must define nothing that the linker could share with
# the rest of the program: no weak, unique or common symbol, and one strong one, its table.
set -euo pipefail
nm=$1; shift
checked=0
for object in "$@"; do
  case $object in *host_avx*) ;; *) continue ;; esac
  checked=$((checked + 1))
  shared=$("$nm" "$object" | awk '$2 ~ /^[WVuC]$/ || $1 ~ /^[WVuC]$/')
  strong=$("$nm" "$object" | awk '$2 ~ /^[TDBR]$/' | grep -v 'Kernels' || true)
  if [ -n "$shared$strong" ]; then
    echo "$object defines symbols that an older CPU could be linked to:"; echo "$shared$strong"
    exit 1
  fi
done
[ "$checked" -ge 2 ] || { echo "expected the AVX2 and AVX-512 objects among: $*"; exit 1; }
