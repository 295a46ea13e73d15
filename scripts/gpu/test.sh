#!/usr/bin/env bash
# Builds on a GPU machine and runs every test there, the CUDA contract suites included.
set -euo pipefail
cd "$(dirname "$0")/../.."
scripts/gpu/build.sh
ctest --test-dir build/gpu --output-on-failure --no-tests=error -j 4 "$@"
