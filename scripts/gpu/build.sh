#!/usr/bin/env bash
# Builds on a GPU machine against its installed PyTorch and, if scripts/gpu/gather.sh made them, the carried
# dependencies in .deps/. Arguments go to cmake. Leaves the build in build/gpu. Warnings are errors with the
# compiler that continuous integration uses, not with whichever is there.
set -euo pipefail
cd "$(dirname "$0")/../.."
python=${PYTHON:-python3}
torch=$("$python" -c 'import torch; print(torch.utils.cmake_prefix_path)')
prefix="$torch"
[ -d .deps/usr ] && prefix="$PWD/.deps/usr;$prefix"
arch=${CUDA_ARCH:-$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1 | tr -d .)}
cmake -S . -B build/gpu -G Ninja -DCMAKE_BUILD_TYPE=Release -DSPILLWAY_CUDA=ON -DSPILLWAY_TORCH=ON \
  -DCMAKE_CUDA_ARCHITECTURES="$arch" -DCMAKE_PREFIX_PATH="$prefix" \
  -DSPILLWAY_WERROR=OFF -DTORCH_CUDA_ARCH_LIST="${arch:0:1}.${arch:1}" -DPython_EXECUTABLE="$(command -v "$python")" "$@"
cmake --build build/gpu -j "$(nproc)" -- -k 0
