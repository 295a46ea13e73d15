#!/usr/bin/env bash
# Builds on a GPU machine and runs every test there, the CUDA contract suites included.
set -euo pipefail
cd "$(dirname "$0")/../.."
scripts/gpu/build.sh
# Tests run side by side; with all cores for each of them, libtorch's threads would only wait for each other.
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-2}"
ctest --test-dir build/gpu --output-on-failure --no-tests=error -j 4 "$@"
