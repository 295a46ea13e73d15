#!/usr/bin/env bash
# Fails if a C++ or CUDA source is not formatted; with --fix formats it.
set -euo pipefail
cd "$(dirname "$0")/.."
mode=(--dry-run --Werror)
[ "${1:-}" = "--fix" ] && mode=(-i)
git ls-files -z --cached --others --exclude-standard -- '*.h' '*.cpp' '*.cu' '*.cuh' |
  xargs -0 -r clang-format-19 "${mode[@]}"
echo "Formatting is in order."
