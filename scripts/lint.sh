#!/usr/bin/env bash
# Runs clang-tidy over Spillway's own sources with the release build's compile commands.
# With arguments: only the files whose path contains one of them.
set -euo pipefail
cd "$(dirname "$0")/.."
database=build/release
[ -f "$database/compile_commands.json" ] || cmake --preset release >/dev/null
mapfile -t files < <(git ls-files -- 'src/*.cpp' 'training/*.cpp' 'apps/*.cpp' 'python/*.cpp')
if [ $# -gt 0 ]; then
  mapfile -t files < <(printf '%s\n' "${files[@]}" | grep -F -f <(printf '%s\n' "$@"))
fi
printf '%s\n' "${files[@]}" |
  xargs -P "$(nproc)" -n 4 clang-tidy-19 -p "$database" --quiet \
    --extra-arg=-Wno-unknown-warning-option --extra-arg=-Wno-ignored-optimization-argument
echo "clang-tidy found nothing in ${#files[@]} files."
