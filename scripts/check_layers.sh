#!/usr/bin/env bash
# Refuses an include that points up the table of parts (docs/architecture.md), and libtorch or CUDA headers
# outside the places that may know them.
set -euo pipefail
cd "$(dirname "$0")/.."

parts=(core device memory optimizer activation config planner report torch training)
# What a part may include besides itself. config, planner and report stand beside the engine.
declare -A allowed=(
  [core]="" [device]="core" [memory]="core device" [optimizer]="core device memory"
  [activation]="core device memory" [config]="core" [report]="core"
  [planner]="core config device memory optimizer activation"
  [torch]="core device memory optimizer activation"
  [training]="core device memory optimizer activation config planner report torch")
failed=0
for part in "${parts[@]}"; do
  for folder in "include/spillway/$part" "src/$part"; do
    [ "$part" = training ] && folder=training
    [ -d "$folder" ] || continue
    while IFS=: read -r file line include; do
      target=${include#*\"}; target=${target%%\"*}
      case $target in
        spillway/*/*) used=${target#spillway/}; used=${used%%/*} ;;
        training/*) used=training ;;
        *) continue ;;
      esac
      case " $part ${allowed[$part]} " in
        *" $used "*) ;;
        *) echo "$file:$line: '$part' may not include '$target'"; failed=1 ;;
      esac
    done < <(grep -rnE '^#include "' "$folder" --include='*.h' --include='*.cpp' --include='*.cu' --include='*.cuh' || true)
  done
done

if grep -rnE '#include [<"](cuda|nv)' include src training apps --include='*.h' --include='*.cpp' |
   grep -vE '^src/(device/cuda|optimizer/kernels/cuda)/|^include/spillway/torch/|^src/torch/'; then
  echo "CUDA headers belong in src/device/cuda and src/optimizer/kernels/cuda only."; failed=1
fi
torch_files=$(grep -rlE '#include [<"](torch|ATen|c10)/|spillway/torch/compat\.h' include src training apps | sort -u)
if grep -vE '^(include/spillway/torch|src/torch|training)/' <<<"$torch_files" | grep -q .; then
  echo "libtorch headers belong in torch and training only:"; echo "$torch_files"; failed=1
fi
[ "$failed" -eq 0 ] && echo "Includes point one way."
exit "$failed"
