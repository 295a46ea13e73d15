#!/usr/bin/env bash
# The main job: trains a small mixture of experts on real text, without offloading and then with optimizer states and
# activations in host memory, on the emulated device, and compares memory and losses.
# usage: scripts/demo.sh [path/to/spillway]
set -euo pipefail
cd "$(dirname "$0")/.."
spillway=${1:-build/release/spillway}

exec "$spillway" verify --recipe qwen3_moe_tiny_pretrain_config \
  device.kind=emulated \
  dataset.path=/usr/share/common-licenses/GPL-3 \
  train.train_iters=20 \
  optimizer.optimizer_cpu_offload=True \
  optimizer.optimizer_offload_fraction=1.0 \
  optimizer.overlap_cpu_optimizer_d2h_h2d=True \
  model.cpu_offloading=True \
  model.cpu_offloading_num_layers=3
